// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package conformance runs the named checks of a plugin contract and collects their
// results. It owns T, which a check uses in place of testing.T so that package testing need
// not be linked, Result, and what the checks of several kinds share. It owns no checks: the
// packages KINDcheck (drivercheck and so on) do. They import it, and so do the packages that run
// the checks: the packages KINDtest in tests, and core/pluginhost/plugincheck for `drover plugin
// check`.
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

// Outcome is the outcome of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
)

// Result is the result of one check.
type Result struct {
	// Name is a short identifier that never changes between versions. Rule is the part
	// of the contract that was checked, in words.
	Name string
	Rule string

	Outcome Outcome
	// Problems lists the violations that were found. Reason says why the check was
	// skipped.
	Problems []string
	Reason   string
	Took     time.Duration
}

// T records the outcome of one check. Its methods behave like those of testing.T.
// Fatalf and Skipf may be called only from the check's own goroutine.
type T struct {
	ctx    context.Context
	caller context.Context // of Run: without the time limit

	mu       sync.Mutex
	problems []string
	skipped  bool
	reason   string
	cleanups []func()
}

// overtime is how long a check may take to clean up after its time limit.
const overtime = 45 * time.Second

// Run runs one check. The check's context ends after limit. A check whose ctx ends before has
// been interrupted, and does not fail by what it could not do since.
func Run(ctx context.Context, name, rule string, limit time.Duration, check func(*T)) Result {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &T{ctx: limited, caller: ctx}
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
	case <-timer.C: // the check's goroutine is leaked: nothing can stop it
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

// recovered turns a panic of the check, or of a plugin in this process, into a
// problem.
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

// Context returns a context that ends when the check's time is up.
func (t *T) Context() context.Context { return t.ctx }

// Errorf records a problem; the check continues. What goes wrong after the check was
// interrupted is no problem of the plugin.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.caller.Err() != nil {
		t.skipped, t.reason = true, "interrupted"
		return
	}
	t.problems = append(t.problems, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf records a problem and ends the check.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf ends the check as skipped, because it cannot be done here.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped, t.reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Cleanup registers f to be called when the check has ended. Functions are called in
// reverse order.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir returns a new directory. When the check has ended, the directory is removed, and
// every process that has it in its environment is killed: a defective driver leaves some.
func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatalf("make a temporary directory: %v", err)
	}
	t.Cleanup(func() {
		EndProcesses(dir)
		err := os.RemoveAll(dir)
		for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
			time.Sleep(50 * time.Millisecond) // the last lines of a log may not have arrived yet
		}
		if err != nil {
			t.Errorf("remove the check's directory: %v; does a task still write there?", err)
		}
	})
	return dir
}

// Receive returns the next value from a plugin's channel, and false if the channel is
// closed. It fails the check if nothing arrives in time.
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

// Ended waits until a plugin's channel is closed.
func Ended[V any](t *T, ch <-chan V, what string) {
	for {
		if _, open := Receive(t, ch, "the end of "+what); !open {
			return
		}
	}
}

// goesOn is how long GoesOn observes a channel.
const goesOn = 300 * time.Millisecond

// GoesOn fails the check if a plugin's channel is closed within goesOn. It passes each
// value that arrives meanwhile to each.
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
