// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package panics catches panics, so that a defect costs one item (an evaluation, a plan,
// a call, a change) and never the process. It owns catching a panic with its stack, and
// the count of caught panics. It does not own what happens to the item: the caller fails
// it, logs it, and makes sure that it is not tried again without end or delay.
//
// Code that may panic must release its locks by defer, or a caught panic leaves them
// locked.
package panics

import (
	"runtime/debug"
	"sync/atomic"
)

// Panic is a caught panic.
type Panic struct {
	Value any
	Stack string
}

// Fields returns more and the fields that describe the panic in a log line.
func (p *Panic) Fields(more ...any) []any {
	return append(more, "panic", p.Value, "stack", p.Stack)
}

var caught atomic.Uint64

// Caught returns the number of panics caught since the process started.
func Caught() uint64 { return caught.Load() }

// Handle calls then with the panic of the function that defers Handle, if it panics:
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
