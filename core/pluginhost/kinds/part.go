// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/process"
)

// Part is the set of names of one kind that one process serves.
type Part interface {
	// Open configures it and admits calls, until ctx ends.
	Open(ctx context.Context, configs map[string]map[string]any)
	// Prepare makes the process ready while another process still serves its names: it
	// configures it, recovers the tasks in it, and refuses it if its fingerprint is worse
	// than that of the other process. It does not admit calls yet. ready limits the
	// preparation; ctx lasts as long as the process.
	Prepare(ctx, ready context.Context, configs map[string]map[string]any) error
	// TakeOver admits calls to it, after Prepare.
	TakeOver(ready context.Context) error
	// Detach holds back its calls; ctx of Open must have ended.
	Detach(reason error)
	// Unneeded reports whether its process may end: nobody uses it, and either it is
	// started on demand, or nothing that it serves is present on this machine (for at
	// least grace if something was before).
	Unneeded(now time.Time, grace time.Duration) bool
	// Present reports whether anything that it serves is present on this machine.
	Present() bool
	// Retire holds back calls because of reason, unless one is in progress; then it
	// changes nothing and returns false. ctx is Open's.
	Retire(ctx context.Context, reason error) bool
	// Yield ends the followers of a process, whose ctx of Open has ended, before
	// another process that serves the names in next takes over.
	Yield(next []string)
	// Drained returns when no call is in progress in the processes that were replaced.
	Drained(ctx context.Context) error
	// Abandon undoes Prepare; ctx of Prepare must have ended.
	Abandon()
	// Names returns what it serves.
	Names() []string

	kindOf() anyKind
}

// Parts are all that one process serves.
type Parts []Part

// Names returns all names, sorted.
func (p Parts) Names() []string { return p.names(func(anyKind) bool { return true }) }

// Names are what a plugin serves, by kind, each sorted.
type Names struct {
	Drivers    []string
	Devices    []string // names of device plugins
	Collectors []string
	Networks   []string // names of network plugins
	Volumes    []string // names of storage plugins
	Registries []string // names of registries of services
}

// Clone returns a copy.
func (n Names) Clone() Names {
	return Names{Drivers: slices.Clone(n.Drivers), Devices: slices.Clone(n.Devices), Collectors: slices.Clone(n.Collectors), Networks: slices.Clone(n.Networks), Volumes: slices.Clone(n.Volumes), Registries: slices.Clone(n.Registries)}
}

// All returns the names of all kinds.
func (n Names) All() []string {
	return slices.Concat(n.Drivers, n.Devices, n.Collectors, n.Networks, n.Volumes, n.Registries)
}

// Of returns the names by kind.
func (p Parts) Of(s *Set) Names {
	of := func(kind anyKind) []string { return p.names(func(k anyKind) bool { return k == kind }) }
	return Names{Drivers: of(&s.Drivers.kind), Devices: of(&s.Devices.kind), Collectors: of(&s.Collectors.kind), Networks: of(&s.Networks.kind), Volumes: of(&s.Volumes.kind), Registries: of(&s.Registries.kind)}
}

// IDs returns ids of all names, sorted; names of different kinds have different ids.
func (p Parts) IDs() []string {
	var out []string
	for _, one := range p {
		for _, name := range one.Names() {
			out = append(out, one.kindOf().id(name))
		}
	}
	slices.Sort(out)
	return out
}

func (p Parts) names(of func(anyKind) bool) []string {
	var out []string
	for _, one := range p {
		if of(one.kindOf()) {
			out = append(out, one.Names()...)
		}
	}
	slices.Sort(out)
	return out
}

// Unneeded reports whether nobody needs the process; see Part.
func (p Parts) Unneeded(now time.Time, grace time.Duration) bool {
	for _, one := range p {
		if !one.Unneeded(now, grace) {
			return false
		}
	}
	return len(p) > 0
}

// Present reports whether anything that the process serves is present on this machine.
func (p Parts) Present() bool { return slices.ContainsFunc(p, Part.Present) }

// Retire holds back calls of all parts; it returns false if one is in progress.
func (p Parts) Retire(ctx context.Context, reason error) bool {
	for _, one := range p {
		if !one.Retire(ctx, reason) {
			return false
		}
	}
	return true
}

// part implements Part for every kind.
type part[B backend, P any, S slot[B, P]] struct {
	kind     *kind[B, P, S]
	from     origin
	served   []served[B, S]
	trials   []*trial[B, P, S]
	presence presence
	watchers sync.WaitGroup
}

// served is one process's implementation of one name, with the name's slot.
type served[B, S any] struct {
	name    string
	backend B
	slot    S
}

// attach asks a process for its backends and reserves their names.
func (k *kind[B, P, S]) attach(ctx context.Context, p *process.Process) (Part, error) {
	backends, err := k.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &part[B, P, S]{kind: k, from: origin{p.File.Name, p.Info.Version}}
	for _, b := range backends {
		if k.check != nil {
			if err := k.check(b); err != nil {
				return nil, err
			}
		}
	}
	if slices.ContainsFunc(backends, func(b B) bool { return k.owner(k.id(k.nameOf(b))) != p.File.Name }) {
		k.turns.wait(ctx, p.File.Name)
	}
	for _, b := range backends {
		s, ok := k.claim(b, p.File.Name)
		if !ok {
			continue
		}
		out.served = append(out.served, served[B, S]{name: k.nameOf(b), backend: b, slot: s})
	}
	return out, nil
}

func (k *kind[B, P, S]) inspect(ctx context.Context, p *process.Process, into *Served) error {
	backends, err := k.connect(ctx, p)
	if err != nil {
		return err
	}
	k.show(into, backends)
	return nil
}

func (p *part[B, P, S]) kindOf() anyKind { return p.kind }

func (p *part[B, P, S]) Names() []string {
	var out []string
	for _, one := range p.served {
		out = append(out, one.name)
	}
	return out
}

func (p *part[B, P, S]) Open(ctx context.Context, configs map[string]map[string]any) {
	k := p.kind
	for _, one := range p.served {
		if p.waits(one, configs) {
			k.update(func() { one.slot.serves(one.backend, p.from, nil) })
			p.presence.note(one.name, true)
			continue
		}
		problem := p.configure(ctx, one, configs)
		// What runs must be reachable even if the configuration is invalid.
		if err := one.slot.admit(ctx, one.backend); problem == nil {
			problem = err
		}
		if ctx.Err() != nil {
			return // the process is being given up: Detach or Yield says why, and not the end of a call
		}
		k.update(func() { one.slot.serves(one.backend, p.from, problem) })
		if k.fingerprint == nil {
			p.presence.note(one.name, true)
		}
		if problem != nil {
			k.log.Error(k.noun+" cannot be used as it is configured", "name", one.name, "plugin", p.from.plugin, "error", problem)
			continue
		}
		if k.fingerprint != nil {
			untilFirst(ctx, &p.watchers, func(first func()) { p.follow(ctx, one, nil, first) })
		}
	}
}

// waits reports whether a name waits for a config.
func (p *part[B, P, S]) waits(one served[B, S], configs map[string]map[string]any) bool {
	return p.kind.dormant != nil && p.kind.dormant(one.backend, configOf(configs, one.name, p.from.plugin))
}

func (p *part[B, P, S]) configure(ctx context.Context, one served[B, S], configs map[string]map[string]any) error {
	_, accepts := p.kind.about(one.backend)
	return configureBlock(ctx, one.name, accepts, configOf(configs, one.name, p.from.plugin), one.backend.SetConfig)
}

// follow keeps the fingerprint of a name up to date until ctx ends. It begins with an
// open stream if there is one.
func (p *part[B, P, S]) follow(ctx context.Context, one served[B, S], prints <-chan P, first func()) {
	defer first()
	k := p.kind
	r := printReader[P]{
		open: func(ctx context.Context) (<-chan P, error) { return k.fingerprint(one.backend, ctx) },
		take: func(f P) {
			p.take(one, f)
			first()
		},
		trouble: func(err error) {
			p.presence.note(one.name, true) // the fingerprint shows its error
			k.update(func() { one.slot.trouble(err) })
			first()
		},
	}
	r.run(ctx, prints)
}

func (p *part[B, P, S]) take(one served[B, S], f P) {
	p.presence.note(one.name, p.kind.present(f))
	p.kind.update(func() { one.slot.take(f) })
}

func (p *part[B, P, S]) Detach(reason error) {
	p.watchers.Wait()
	for _, one := range p.served {
		p.lose(one, reason)
	}
}

func (p *part[B, P, S]) lose(one served[B, S], reason error) {
	one.slot.hold(reason)
	p.kind.update(func() { one.slot.lost(one.backend, reason) })
}

func (p *part[B, P, S]) Unneeded(now time.Time, grace time.Duration) bool {
	p.kind.mu.Lock()
	defer p.kind.mu.Unlock()
	allOnDemand := true
	for _, one := range p.served {
		idle, onDemand := one.slot.idle(one.backend, now, grace)
		if !idle {
			return false
		}
		allOnDemand = allOnDemand && onDemand
	}
	return p.presence.gone(len(p.served), now, grace) || allOnDemand && p.presence.known(len(p.served))
}

func (p *part[B, P, S]) Present() bool { return p.presence.any() }

// Retire implements Part. If one name has a call in progress, the others' calls are
// released again.
func (p *part[B, P, S]) Retire(ctx context.Context, reason error) bool {
	for i, one := range p.served {
		if one.slot.retire(reason) {
			continue
		}
		for _, before := range p.served[:i] {
			_ = before.slot.admit(ctx, before.backend) // it served until now
		}
		return false
	}
	return true
}
