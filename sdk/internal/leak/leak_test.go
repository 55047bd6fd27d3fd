// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package leak

import (
	"strings"
	"testing"
	"time"
)

func stay(begun, until chan struct{}) {
	close(begun)
	<-until
}

func TestAGoroutineThatStaysIsFoundAndOneThatEndsIsNot(t *testing.T) {
	begun, until := make(chan struct{}), make(chan struct{})
	go stay(begun, until)
	<-begun
	found := func(left []string) bool { return strings.Contains(strings.Join(left, "\n"), "leak.stay") }
	if left := await(time.Millisecond); !found(left) {
		t.Errorf("a goroutine that waits is not among %q", left)
	}
	time.AfterFunc(time.Millisecond, func() { close(until) })
	for end := time.Now().Add(30 * time.Second); found(others()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a goroutine that has ended is still found")
		}
	}
}
