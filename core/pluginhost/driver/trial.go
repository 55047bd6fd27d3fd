// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Trial is a process that is prepared beside the current one, to replace it without
// any task or caller noticing.
type Trial struct {
	proxy *Proxy
	d     Driver
	gen   uint64

	onRecovered func() // for each task

	mu        sync.Mutex
	recovered map[*task]bool
}

// Try recovers every known task in d and inspects each. An error means that d cannot
// take over, and nothing has changed. It calls recovered for each task that d knows.
func (p *Proxy) Try(ctx context.Context, d Driver, recovered func()) (*Trial, error) {
	p.mu.Lock()
	t := &Trial{proxy: p, d: d, gen: p.issue(), recovered: map[*task]bool{}, onRecovered: recovered}
	p.mu.Unlock()
	return t, t.recover(ctx)
}

// recover recovers the tasks that are not known yet.
func (t *Trial) recover(ctx context.Context) error {
	p := t.proxy
	p.mu.Lock()
	known := p.known()
	p.mu.Unlock()
	slots := make(chan struct{}, recoverWorkers)
	var wg sync.WaitGroup
	var failed []error
	for _, one := range known {
		if t.has(one) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := t.one(ctx, one)
			t.mu.Lock()
			defer t.mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			t.recovered[one] = true
			t.onRecovered()
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		return errdefs.New(errdefs.ClassOf(failed[0]), fmt.Errorf("driver %q: %d of %d tasks cannot be recovered in the new process, the first: %w",
			p.name, len(failed), len(known), failed[0]))
	}
	return nil
}

func (t *Trial) has(one *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recovered[one]
}

func (t *Trial) one(ctx context.Context, one *task) error {
	ctx, cancel := context.WithTimeout(ctx, t.proxy.limits.Call)
	defer cancel()
	id := one.handle.TaskID
	err := settle(ctx, t.d.RecoverTask(ctx, one.handle))
	if err == nil {
		if _, err = t.d.InspectTask(ctx, id); err == nil {
			return nil
		}
		err = settle(ctx, err)
	}
	if errdefs.IsNotFound(err) && t.gone(ctx, one) {
		return nil
	}
	return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("task %s: %w", id, err))
}

// gone reports whether the current process does not know the task either: it was
// destroyed meanwhile, or was lost before.
func (t *Trial) gone(ctx context.Context, one *task) bool {
	p := t.proxy
	p.mu.Lock()
	current, still := p.current, p.tasks[one.handle.TaskID] == one
	p.mu.Unlock()
	if !still {
		return true
	}
	if current == nil {
		return false
	}
	_, err := current.InspectTask(ctx, one.handle.TaskID)
	return errdefs.IsNotFound(err)
}

// Switch makes the new process the current one. Waits and streams move to it. It fails
// only if the proxy was closed or another process was attached in between.
func (t *Trial) Switch(ctx context.Context) error {
	// Recover tasks that were started meanwhile. If that fails for a task, the next
	// call for it tries again.
	late := t.recover(ctx)
	t.mu.Lock()
	for one := range t.recovered {
		one.mu.Lock()
		one.generation = max(one.generation, t.gen)
		one.mu.Unlock()
	}
	t.mu.Unlock()
	p := t.proxy
	p.breaker.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.generation > t.gen {
		return errors.Join(errdefs.Abortedf("driver %q: the plugin host was closed, or another process serves meanwhile", p.name), late)
	}
	p.info, p.current, p.reason = t.d.Info(), t.d, nil
	p.succeed(t.gen)
	p.signal()
	return nil
}

// Drained returns when no call is in progress in processes before the current one.
func (p *Proxy) Drained(ctx context.Context) error {
	for {
		p.mu.Lock()
		old := len(p.running)
		if p.running[p.generation] > 0 {
			old--
		}
		changed, closed := p.changed, p.closed
		p.mu.Unlock()
		if old == 0 || closed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("driver %q: calls are still under way in the old process: %w", p.name, ctx.Err())
		}
	}
}

// Tasks returns how many tasks are known.
func (p *Proxy) Tasks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks)
}

// Refuse makes every start of a task fail with reason, until it is called with nil.
// Running tasks are not affected.
func (p *Proxy) Refuse(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = reason
}

func (p *Proxy) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuses
}

// loser is implemented by drivers that need to know when a task is lost.
type loser interface {
	Lost(ctx context.Context, handle *Handle)
}

func lost(ctx context.Context, d Driver, handle *Handle) {
	if l, ok := d.(loser); ok {
		l.Lost(context.WithoutCancel(ctx), handle)
	}
}
