// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

const stored = 20 // values that were acknowledged

// killed returns the directory of a store as a kill -9 of the agent leaves it.
func killed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	for i := range stored {
		if err := s.Put(t.Context(), fmt.Sprint("k", i), []byte(strings.Repeat("v", 100))); err != nil {
			t.Fatal(err)
		}
	}
	return copied(t, dir)
}

func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "state")
	mark, err := os.ReadFile(durable.CommitsFile(dir))
	if err == nil {
		err = errors.Join(os.CopyFS(to, os.DirFS(dir)), os.WriteFile(durable.CommitsFile(to), mark, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// found returns how many values a store has.
func found(t *testing.T, dir string) (int, error) {
	t.Helper()
	s, err := local.Open(dir, hclog.NewNullLogger())
	if err != nil {
		return 0, err
	}
	defer s.Close()
	n := 0
	for i := range stored {
		_, err := s.Get(t.Context(), fmt.Sprint("k", i))
		switch {
		case err == nil:
			n++
		case !errdefs.IsNotFound(err):
			t.Fatal(err)
		}
	}
	return n, nil
}

// The agent would end the tasks that it does not know any more, which are healthy.
func TestAStateThatHasLostCommitsIsRefusedAndNeverRead(t *testing.T) {
	dir := killed(t)
	if n, err := found(t, copied(t, dir)); n != stored || err != nil {
		t.Fatalf("after a kill: %d values, %v", n, err)
	}
	journals, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(journals) != 1 {
		t.Fatalf("journals %v, %v", journals, err)
	}
	whole, err := os.ReadFile(journals[0])
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(whole), "\x00"))
	damage := map[string]func(file string) error{
		"no journal": os.Remove,
		"a half":     func(file string) error { return os.Truncate(file, int64(used/2)) },
	}
	for at := 100; at < used; at += used / 7 {
		flipped := append([]byte{}, whole...)
		flipped[at] ^= 0x55
		damage[fmt.Sprint("a wrong byte at ", at)] = func(file string) error { return os.WriteFile(file, flipped, 0o600) }
	}
	for name, do := range damage {
		damaged := copied(t, dir)
		if err := do(filepath.Join(damaged, filepath.Base(journals[0]))); err != nil {
			t.Fatal(err)
		}
		n, err := found(t, damaged)
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), durable.CommitsFile(damaged)) {
			t.Fatalf("%s: %d of %d values, %v", name, n, stored, err)
		}
		if err := os.Remove(durable.CommitsFile(damaged)); err != nil {
			t.Fatal(err)
		}
		if _, err := found(t, damaged); err != nil {
			t.Errorf("%s, after the operator has agreed: %v", name, err)
		}
	}
}
