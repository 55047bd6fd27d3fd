// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// settling is how long a version on trial may need to be as healthy as the present
// one. A driver may say that it is not detected while it is still looking: java runs
// the JVM to learn its version.
const settling = 10 * time.Second

// trial is one name of a process that is to take over.
type trial[B, P, S any] struct {
	served[B, S]
	prints <-chan P // nil for a kind without fingerprints
	latest P
	follow func() // takes up the fingerprints that come after the latest
}

// Prepare implements Part.
func (p *part[B, P, S]) Prepare(ctx, ready context.Context, configs map[string]map[string]any) error {
	k := p.kind
	for _, one := range p.served {
		if p.waits(one, configs) {
			p.trials = append(p.trials, &trial[B, P, S]{served: one})
			continue
		}
		if err := p.configure(ready, one, configs); err != nil {
			return err
		}
		if err := one.slot.try(ready, one.backend, func() { k.recovered(p.from.plugin) }); err != nil {
			return err
		}
		t := &trial[B, P, S]{served: one}
		p.trials = append(p.trials, t)
		if k.fingerprint == nil {
			continue
		}
		if err := p.fingerprint(ctx, ready, t); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint waits for a fingerprint of a name on trial that is not worse than the present
// one. ready and settling limit the wait; the stream stays open until ctx ends.
func (p *part[B, P, S]) fingerprint(ctx, ready context.Context, t *trial[B, P, S]) (err error) {
	k := p.kind
	if t.prints, err = k.fingerprint(t.backend, ctx); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s %q: cannot be fingerprinted: %w", k.noun, t.name, err))
	}
	t.follow = func() { p.follow(ctx, t.served, t.prints, func() {}) }
	if t.latest, err = next(ready, t.prints); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s %q: %w", k.noun, t.name, err))
	}
	settled, cancel := context.WithTimeout(ready, settling)
	defer cancel()
	for {
		k.mu.Lock()
		worse := t.slot.worse(t.latest)
		k.mu.Unlock()
		if worse == nil {
			return nil
		}
		latest, err := next(settled, t.prints)
		if err != nil { // its last error is the reason
			return errdefs.New(errdefs.ClassOf(worse), fmt.Errorf("%s %q: %w", k.noun, t.name, worse))
		}
		t.latest = latest
	}
}

// next waits for a fingerprint.
func next[T any](ctx context.Context, prints <-chan T) (T, error) {
	select {
	case f, ok := <-prints:
		if !ok {
			return f, errdefs.Unavailablef("its fingerprints ended")
		}
		return f, nil
	case <-ctx.Done():
		var none T
		return none, errdefs.DeadlineExceededf("no fingerprint in time: %w", ctx.Err())
	}
}

// TakeOver implements Part: it switches name by name.
func (p *part[B, P, S]) TakeOver(ready context.Context) error {
	for _, t := range p.trials {
		if err := t.slot.admit(ready, t.backend); err != nil {
			return err
		}
		p.kind.update(func() { t.slot.serves(t.backend, p.from, nil) })
		if t.prints == nil {
			p.presence.note(t.name, true)
			continue
		}
		p.take(t.served, t.latest)
		p.watchers.Go(t.follow)
	}
	p.trials = nil
	return nil
}

// Yield implements Part.
func (p *part[B, P, S]) Yield(next []string) {
	p.watchers.Wait()
	for _, one := range p.served {
		if !slices.Contains(next, one.name) {
			p.lose(one, errdefs.Unavailablef("plugin %q no longer serves %s %q", p.from.plugin, p.kind.noun, one.name))
		}
	}
}

// Drained implements Part.
func (p *part[B, P, S]) Drained(ctx context.Context) error {
	var left []error
	for _, one := range p.served {
		left = append(left, one.slot.drained(ctx, one.backend))
	}
	return errors.Join(left...)
}

// Abandon implements Part: it drains the fingerprints of a failed trial.
func (p *part[B, P, S]) Abandon() {
	for _, t := range p.trials {
		if t.prints == nil {
			continue
		}
		for range t.prints {
		}
	}
	p.trials = nil
}
