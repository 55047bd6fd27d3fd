// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package conformance runs the named checks of a contract and says what came of
// each. It owns the T that a check works with, which is package testing's where
// that is not linked, and Result. It owns no check: drivercheck, devicecheck and
// their like do. They import it, and whoever runs them: drivertest and its like
// in tests, core/pluginhost/plugincheck for `drover plugin check`.
package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Outcome is what came of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
)

// Result is what came of one check.
type Result struct {
	// Name is short and stays the same from version to version, Rule the words
	// of the contract that were checked.
	Name string
	Rule string

	Outcome Outcome
	// Problems are what was wrong, Reason why the check was skipped.
	Problems []string
	Reason   string
	Took     time.Duration
}

// T is what a check says its outcome to. Its methods mean what those of
// testing.T mean; Fatalf and Skipf may be called by the check's own goroutine only.
type T struct {
	ctx context.Context

	mu       sync.Mutex
	problems []string
	skipped  bool
	reason   string
	cleanups []func()
}

// overtime is what a check has to return after its time is up: it has to end what it started.
const overtime = 45 * time.Second

// Run runs one check, whose context ends after limit.
func Run(ctx context.Context, name, rule string, limit time.Duration, check func(*T)) Result {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &T{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanup()
		defer t.recovered()
		check(t)
	}()
	timer := time.NewTimer(limit + overtime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C: // its goroutine stays: nothing can end it
		t.Errorf("the check did not end within %s and %s more: a call of the plugin does not return when its context ends", limit, overtime)
	}
	return t.result(name, rule, time.Since(begin))
}

func (t *T) result(name, rule string, took time.Duration) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Name: name, Rule: rule, Outcome: Passed, Problems: append([]string(nil), t.problems...), Took: took}
	switch {
	case len(r.Problems) > 0:
		r.Outcome = Failed
	case t.skipped:
		r.Outcome, r.Reason = Skipped, t.reason
	}
	return r
}

// recovered makes a panic of a check, or of a plugin in this process, a problem.
func (t *T) recovered() {
	if p := recover(); p != nil {
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

func (t *T) cleanup() {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		f()
	}
}

// Context ends when the check's time is up.
func (t *T) Context() context.Context { return t.ctx }

// Errorf notes a problem; the check goes on.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = append(t.problems, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf notes a problem and ends the check.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf ends the check: it cannot be made here.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped, t.reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Cleanup has f called when the check has ended, the last one first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir returns a new directory, which is removed at the end.
func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatalf("make a temporary directory: %v", err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
			time.Sleep(50 * time.Millisecond) // the last lines of a log may be on their way
		}
		if err != nil {
			t.Errorf("remove the check's directory: %v; does a task still write there?", err)
		}
	})
	return dir
}

// Receive returns what a channel of a plugin delivers next and whether it is still
// open. It ends the check if that does not come in time.
func Receive[V any](t *T, ch <-chan V, what string) (V, bool) {
	select {
	case v, ok := <-ch:
		return v, ok
	case <-t.ctx.Done():
		t.Fatalf("%s did not come in the check's time", what)
	}
	var none V
	return none, false
}

// Ended waits until a channel of a plugin is closed.
func Ended[V any](t *T, ch <-chan V, what string) {
	for {
		if _, open := Receive(t, ch, "the end of "+what); !open {
			return
		}
	}
}

// goesOn is how long GoesOn looks.
const goesOn = 300 * time.Millisecond

// GoesOn ends the check if a channel of a plugin is closed within a short while, in
// which what it delivers is handed to each.
func GoesOn[V any](t *T, ch <-chan V, what string, each func(V)) {
	over := time.After(goesOn)
	for {
		select {
		case v, open := <-ch:
			if !open {
				t.Fatalf("%s ended though their context has not", what)
			}
			each(v)
		case <-over:
			return
		}
	}
}
