// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package panics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/panics"
)

func defect() { panic("no item of ours is like this") }

func TestAPanicIsCaughtWithItsStackAndCounted(t *testing.T) {
	before := panics.Caught()
	p := panics.Catch(defect)
	if p == nil || p.Value != "no item of ours is like this" || !strings.Contains(p.Stack, "panics_test.defect") {
		t.Fatalf("caught %+v", p)
	}
	if fields := p.Fields("item", 7); len(fields) != 6 || fields[1] != 7 {
		t.Errorf("fields %v", fields)
	}
	err := func() (err error) {
		defer panics.Handle(func(*panics.Panic) { err = errors.New("failed") })
		defect()
		return nil
	}()
	if err == nil {
		t.Error("the deferred call did not set the error")
	}
	if n := panics.Caught() - before; n != 2 {
		t.Errorf("counted %d", n)
	}
}

func TestWhatDoesNotPanicIsNotCounted(t *testing.T) {
	before := panics.Caught()
	if p := panics.Catch(func() {}); p != nil {
		t.Errorf("caught %+v", p)
	}
	if n := panics.Caught() - before; n != 0 {
		t.Errorf("counted %d", n)
	}
}
