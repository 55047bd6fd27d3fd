// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// backend is one process's implementation of one name.
type backend interface {
	SetConfig(ctx context.Context, config []byte) error
}

// spec has the properties of a kind, except for the behaviour of its slots. B is its
// backend, P its fingerprint and S its slot.
type spec[B backend, P any, S slot[B, P]] struct {
	noun      string // "driver"; stands before a name in messages
	contracts []plugin.Kind
	connect   func(ctx context.Context, p *process.Process) ([]B, error)
	// about returns the name of a backend and the schema of its config.
	about func(B) (name string, config schema.Schema)
	// check rejects a backend that the agent cannot support; nil accepts all.
	check func(B) error
	// dormant reports whether a name needs a config and has none, so that it only waits for
	// one; nil means that there are no such names.
	dormant func(b B, config map[string]any) bool
	// slot makes the slot of a name for the plugin that owns it.
	slot func(b B, plugin string) S
	// fingerprint opens a stream; nil for a kind without fingerprints, which always
	// counts as present on the machine.
	fingerprint func(B, context.Context) (<-chan P, error)
	// present reports whether a fingerprint says that the name exists on the machine.
	present func(P) bool
	// show adds the backends to the result of an inspection.
	show func(*Served, []B)
}

// slot is the place of one name in the host; the processes that serve it come and go.
// The kind's lock is held in the methods that say so, and waiters are woken after them.
type slot[B backend, P any] interface {
	// try prepares a process beside the serving one: the process recovers the tasks that it
	// must take over, but gets no other calls. recovered is called for each task.
	try(ready context.Context, b B, recovered func()) error
	// admit lets calls through to a process, after try or without.
	admit(ctx context.Context, b B) error
	// serves records that a process serves the name; problem is why it cannot be used
	// as it is configured. The lock is held.
	serves(b B, from origin, problem error)
	// hold holds back calls, because the process is lost or replaced.
	hold(reason error)
	// lost records that a process serves the name no more. The lock is held.
	lost(b B, reason error)
	// retire does what hold does, for a process that nobody needs. If a call is in
	// progress, it changes nothing and returns false.
	retire(reason error) bool
	// drained returns when no call is in progress in a process that was replaced.
	drained(ctx context.Context, b B) error
	// idle reports whether nobody has used the name for at least grace, and whether it
	// needs a process only on demand. The lock is held.
	idle(b B, now time.Time, grace time.Duration) (idle, onDemand bool)
	// take records a fingerprint. The lock is held.
	take(P)
	// trouble records why there is no fingerprint. The lock is held.
	trouble(error)
	// worse says why a fingerprint of another version must not replace the present one.
	// The lock is held.
	worse(P) error
	// refuse makes the name refuse new work because of reason; nil allows it again. The
	// lock is held.
	refuse(reason error)
	// unanswering returns why calls fail at once, and since when. The lock is held.
	unanswering() (since time.Time, why error)
	// release frees the name from its plugin. It returns whether the slot is kept for
	// the next plugin that serves the name. The lock is held.
	release() (kept bool)
	// close ends the slot.
	close()
}

// plain has the answers of a slot that needs none of its own.
type plain[B backend, P any] struct{}

func (plain[B, P]) try(context.Context, B, func()) error                   { return nil }
func (plain[B, P]) admit(context.Context, B) error                         { return nil }
func (plain[B, P]) hold(error)                                             {}
func (plain[B, P]) retire(error) bool                                      { return true }
func (plain[B, P]) drained(context.Context, B) error                       { return nil }
func (plain[B, P]) idle(B, time.Time, time.Duration) (idle, onDemand bool) { return true, false }
func (plain[B, P]) take(P)                                                 {}
func (plain[B, P]) trouble(error)                                          {}
func (plain[B, P]) worse(P) error                                          { return nil }
func (plain[B, P]) refuse(error)                                           {}
func (plain[B, P]) unanswering() (since time.Time, why error)              { return time.Time{}, nil }

// origin is the version of a plugin that serves a name.
type origin struct{ plugin, version string }

// kind holds all names of one kind that plugins serve.
type kind[B backend, P any, S slot[B, P]] struct {
	spec[B, P, S]
	log       hclog.Logger
	recovered func(plugin string)
	owner     func(id string) string
	turns     *turns

	mu      sync.Mutex
	byName  map[string]*entry[S]
	refused map[string]map[string]refusedName // by name and plugin
	changed chan struct{}                     // closed and replaced at each change
	closed  bool
}

// entry is the slot of a name with the plugin that owns the name; "" after it was
// released.
type entry[S any] struct {
	plugin string
	slot   S
}

func newKind[B backend, P any, S slot[B, P]](cfg Config, s spec[B, P, S]) kind[B, P, S] {
	if cfg.Owner == nil {
		cfg.Owner = func(string) string { return "" }
	}
	if cfg.turns == nil {
		cfg.turns = newTurns()
	}
	return kind[B, P, S]{spec: s, log: cfg.Logger, recovered: cfg.Recovered, owner: cfg.Owner, turns: cfg.turns, byName: map[string]*entry[S]{}, refused: map[string]map[string]refusedName{}, changed: make(chan struct{})}
}

func (k *kind[B, P, S]) contractsOf() []plugin.Kind { return k.contracts }

// nameOf returns the name of a backend.
func (k *kind[B, P, S]) nameOf(b B) string {
	name, _ := k.about(b)
	return name
}

// update changes the state that callers see, and wakes the callers that wait for a change.
func (k *kind[B, P, S]) update(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	k.wake()
}

// wake wakes the callers that wait for a change. The lock must be held.
func (k *kind[B, P, S]) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// release frees the names of a plugin that are not in keep. Without keep it also forgets
// which names the plugin did not get.
func (k *kind[B, P, S]) release(owner string, keep []string) {
	var gone []S
	k.update(func() {
		if keep == nil {
			k.forgive(owner, func(string) bool { return true })
		}
		for name, e := range k.byName {
			if e.plugin != owner || slices.Contains(keep, name) {
				continue
			}
			e.plugin = ""
			if !e.slot.release() {
				gone = append(gone, e.slot)
				delete(k.byName, name)
			}
		}
	})
	for _, s := range gone { // it may be asking for the lock
		s.close()
	}
}

// refuse makes the names of a plugin refuse new work because of reason; nil allows it
// again.
func (k *kind[B, P, S]) refuse(owner string, reason error) {
	k.update(func() {
		for _, e := range k.byName {
			if e.plugin == owner {
				e.slot.refuse(reason)
			}
		}
	})
}

// unanswering returns why calls to one of the plugin's names fail at once; nil if all
// answer.
func (k *kind[B, P, S]) unanswering(names []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		e := k.byName[name]
		if e == nil {
			continue
		}
		if since, why := e.slot.unanswering(); why != nil {
			return errdefs.Unavailablef("%s %q has not answered since %s, so its calls fail at once: %w", k.noun, name, since.UTC().Format(time.RFC3339), why)
		}
	}
	return nil
}

// slots returns all slots in the order of their names. The lock must be held.
func (k *kind[B, P, S]) slots() []S {
	out := make([]S, 0, len(k.byName))
	for _, name := range slices.Sorted(maps.Keys(k.byName)) {
		out = append(out, k.byName[name].slot)
	}
	return out
}

func (k *kind[B, P, S]) close() {
	k.mu.Lock()
	k.closed = true
	all := k.slots()
	k.mu.Unlock()
	for _, s := range all { // it may be asking for the lock
		s.close()
	}
}
