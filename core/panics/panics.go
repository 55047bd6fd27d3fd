// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package panics decides what a panic of ours costs: the one item that was being
// worked on (an evaluation, a plan, a call, a change), which fails, and never the
// process. It owns catching a panic with the stack where it happened, and the count of
// those that were caught. It does not own what becomes of the item: whoever catches
// says so, in the log too, and sees to it that the item is not tried for ever.
//
// Whoever catches holds no lock at that place that is not released by a defer.
package panics

import (
	"runtime/debug"
	"sync/atomic"
)

// Panic is one that was caught.
type Panic struct {
	Value any
	Stack string
}

// Fields are what a log line says of it.
func (p *Panic) Fields(more ...any) []any {
	return append(more, "panic", p.Value, "stack", p.Stack)
}

var caught atomic.Uint64

// Caught is how many panics were caught since the process began.
func Caught() uint64 { return caught.Load() }

// Handle calls then with the panic of the function that defers it, if there is one:
//
//	defer panics.Handle(func(p *panics.Panic) { err = ... })
func Handle(then func(*Panic)) {
	if v := recover(); v != nil {
		caught.Add(1)
		then(&Panic{Value: v, Stack: string(debug.Stack())})
	}
}

// Catch runs f and returns its panic, nil if there was none.
func Catch(f func()) (p *Panic) {
	defer Handle(func(caught *Panic) { p = caught })
	f()
	return nil
}
