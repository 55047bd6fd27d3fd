// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// verb is what a client asks of an object.
type verb string

const (
	read    verb = "read"
	write   verb = "write"
	swap    verb = "swap" // a write that requires a modify index; 0: the object must not exist
	remove  verb = "remove"
	acquire verb = "acquire" // the lock of a variable
	release verb = "release"
)

// request is one operation on one object: a variable, a job or a namespace. Each write has
// a value of its own.
type request struct {
	object string
	verb   verb
	value  string
	index  uint64 // of a swap
	lock   string // the lock with which a client writes or releases
}

// outcome is what a client learns of a request.
type outcome string

const (
	done     outcome = "done"
	missing  outcome = "missing"  // there is no such object
	conflict outcome = "conflict" // refused, because of an index or a lock
	unknown  outcome = "unknown"  // no answer: it may have been done, and may still be
)

type answer struct {
	outcome outcome
	value   string
	index   uint64 // the modify index; 0: the answer does not say it
	lock    string // what an acquire has got
}

// object is what is known about an object. index is 0 if no answer has named it. Of what
// was removed it is the last one, because indexes never go backwards. lock is the holder,
// lostLock one that nobody has heard of.
type object struct {
	exists bool
	value  string
	index  uint64
	lock   string
}

const lostLock = "?"

// known returns the object with an index that an answer has named; false: it contradicts
// what is known.
func (o object) known(index uint64) (object, bool) {
	if index != 0 && o.index != 0 && index != o.index {
		return o, false
	}
	if index != 0 {
		o.index = index
	}
	return o, true
}

// newer returns the object after a write with an index.
func (o object) newer(index uint64) (object, bool) {
	ok := index == 0 || index > o.index
	o.index = index
	return o, ok
}

func (o object) free(lock string) bool { return o.lock == "" || o.lock == lock }

// mayMatch and mayDiffer say whether the index of the object may be, and may be another
// than, that of a swap.
func (o object) mayMatch(index uint64) bool {
	if index == 0 || !o.exists {
		return index == 0 && !o.exists
	}
	return o.index == 0 || o.index == index
}

func (o object) mayDiffer(index uint64) bool {
	if index == 0 || !o.exists {
		return !o.mayMatch(index)
	}
	return o.index != index
}

// step returns the states that the object may have after a request with this answer.
func (o object) step(r request, a answer) (next []object) {
	if a.outcome == unknown {
		next = append(next, o) // refused, or lost on the way
		if after, ok := o.apply(r, answer{lock: lostLock}); ok {
			next = append(next, after)
		}
		return next
	}
	switch {
	case r.verb == read && a.outcome == missing, r.verb == remove && a.outcome == missing:
		if !o.exists {
			next = append(next, o)
		}
	case r.verb == read:
		if after, ok := o.known(a.index); ok && o.exists && o.value == a.value {
			next = append(next, after)
		}
	case a.outcome == conflict:
		refused := !o.free(r.lock) || r.verb == swap && o.mayDiffer(r.index) || r.verb == acquire && o.lock != "" || r.verb == release && o.lock != r.lock
		if refused {
			next = append(next, o)
		}
	case a.outcome == done:
		if after, ok := o.apply(r, a); ok {
			next = append(next, after)
		}
	}
	return next
}

// apply returns the object after a write; false: it would have been refused.
func (o object) apply(r request, a answer) (object, bool) {
	if !o.free(r.lock) {
		return o, false
	}
	switch r.verb {
	case swap:
		if !o.mayMatch(r.index) {
			return o, false
		}
	case acquire:
		if o.lock != "" {
			return o, false
		}
		o.lock = a.lock
	case release:
		if o.lock == "" || o.lock != r.lock {
			return o, false
		}
		o.lock = ""
	case remove:
		o.exists, o.value, o.lock = false, "", ""
		return o, true
	}
	o.exists, o.value = true, r.value
	return o.newer(a.index)
}

// theModel is one object at a time: that is enough, because linearizability composes.
var theModel = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{object{}} },
		Step: func(state, input, output any) (next []any) {
			for _, o := range state.(object).step(input.(request), output.(answer)) {
				next = append(next, o)
			}
			return next
		},
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := map[string][]porcupine.Operation{}
			for _, op := range history {
				key := op.Input.(request).object
				by[key] = append(by[key], op)
			}
			var out [][]porcupine.Operation
			for _, part := range by {
				out = append(out, part)
			}
			return out
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
	return m.ToModel()
}()
