// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"io/fs"
	"math/rand/v2"
	"time"
)

// retryWrite is how a file that could not be made is tried again after First.
var retryWrite = RetryConfig{Backoff: time.Second, MaxBackoff: time.Minute}

type modeAndOwner struct {
	mode fs.FileMode
	owner
}

// needsLoop reports whether anything can still change; otherwise no goroutine is
// needed.
func (r *Runner) needsLoop() bool {
	return len(r.watched) > 0 || r.readsFiles() || !r.pending.empty()
}

// loop renders changed templates and reports changes, until Close.
func (r *Runner) loop() {
	r.busy.Lock()
	defer r.busy.Unlock()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for r.ctx.Err() == nil && r.needsLoop() {
		now := time.Now()
		next := now.Add(time.Hour)
		for _, t := range r.templates {
			next = earlier(next, r.look(t, now))
		}
		r.status()
		if r.readsFiles() {
			next = earlier(next, now.Add(r.engine.cfg.FilePoll))
		}
		var out chan Change
		if !r.pending.empty() {
			if now.Before(r.tellAt) {
				next = earlier(next, r.tellAt)
			} else {
				out = r.changes
			}
		}
		timer.Reset(max(time.Until(next), 0))
		select {
		case <-r.ctx.Done():
		case <-r.wake:
		case <-timer.C:
		case out <- r.pending:
			r.pending = Change{}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look renders a template if it is due, and returns when to check it again.
func (r *Runner) look(t *rendered, now time.Time) time.Time {
	if t.spec.Once {
		return time.Time{}
	}
	if r.stale(t) {
		if t.changedAt.IsZero() {
			t.changedAt = now
		}
		t.lastChange = now
		t.seen, t.read = r.present(t) // so that the next change is noticed
		t.retryAt = time.Time{}
	}
	due := t.retryAt
	if !t.changedAt.IsZero() && t.retryAt.IsZero() {
		wait := r.wait(t)
		due = earlier(t.changedAt.Add(wait.Max), t.lastChange.Add(wait.Min))
		if r.prompt(t) && t.changedAt.Sub(t.renderedAt) >= wait.Min {
			due = earlier(due, t.changedAt.Add(promptWait))
		}
	}
	if due.IsZero() || now.Before(due) {
		return due
	}
	t.changedAt, t.retryAt, t.renderedAt = time.Time{}, time.Time{}, now
	changed, err := r.render(r.ctx, t)
	if r.ctx.Err() != nil {
		return time.Time{}
	}
	t.err = err
	r.prune()
	if err != nil {
		return r.failed(t, now)
	}
	if t.failures > 0 {
		t.failures = 0
		r.engine.cfg.Logger.Info("a template renders again", "template", t.name)
	}
	if changed {
		r.announce(t)
	}
	return time.Time{}
}

// failed keeps the last file, logs the first error of several, and says when to try again.
func (r *Runner) failed(t *rendered, now time.Time) time.Time {
	if t.failures++; t.failures == 1 {
		r.engine.cfg.Logger.Warn("a template cannot be rendered; its last file stays, and it is tried again", "template", t.name, "error", t.err)
	}
	t.retryAt = now.Add(backoff(retryWrite, t.failures))
	return t.retryAt
}

// present returns the queries of a template with the current versions of their answers.
func (r *Runner) present(t *rendered) (map[Query]uint64, map[string]stamp) {
	for q := range t.seen {
		_, t.seen[q], _ = r.engine.hub.answer(q)
	}
	for path := range t.read {
		t.read[path] = r.files.stamp(path)
	}
	return t.seen, t.read
}

// promptWait is how long a prompt change waits for others of the same moment: several allocs
// may start at once.
const promptWait = 50 * time.Millisecond

// prompt reports whether the first change after a quiet time is rendered at once instead of
// after the default wait: see docs/adr/0111.
func (r *Runner) prompt(t *rendered) bool {
	return r.engine.prompt && t.spec.Wait == nil && changeOf(t.spec).Mode != ModeRestart
}

// wait returns how long inputs must be unchanged, within the limits of the node.
func (r *Runner) wait(t *rendered) Bounds {
	b := *r.engine.cfg.Wait
	if w := t.spec.Wait; w != nil {
		if w.Min != nil {
			b.Min = *w.Min
		}
		if w.Max != nil {
			b.Max = *w.Max
		} else {
			b.Max = 4 * b.Min
		}
	}
	if o := r.engine.cfg.WaitBounds; o != nil {
		b.Min = max(b.Min, o.Min)
		if o.Max > 0 {
			b.Min, b.Max = min(b.Min, o.Max), min(b.Max, o.Max)
		}
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// announce schedules the report of a change, after a random part of the template's
// splay.
func (r *Runner) announce(t *rendered) {
	c := changeOf(t.spec)
	if c.empty() {
		return
	}
	at := time.Now()
	if t.spec.Splay > 0 {
		at = at.Add(rand.N(t.spec.Splay)) //nolint:gosec // no secret
	}
	if r.pending.empty() {
		r.pending, r.tellAt = c, at
		return
	}
	r.pending, r.tellAt = r.pending.and(c), earlier(at, r.tellAt)
}
