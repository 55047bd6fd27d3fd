// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Runner renders the templates of one task until it is closed.
type Runner struct {
	engine    *Engine
	task      Task
	files     files
	templates []*rendered

	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{}
	changes chan Change

	busy    sync.Mutex // held by First, then by the loop: guards the rendering
	watched map[Query]int
	closed  bool
	pending Change    // found but not reported yet
	tellAt  time.Time // when it may be reported

	mu      sync.Mutex // guards what others ask
	first   bool
	env     Vars
	waiting []string
	lastErr error
}

// rendered is a template and the file that it became.
type rendered struct {
	*compiled
	at     place
	secret bool // the file is in the folder for secrets
	mode   modeAndOwner

	done  bool // rendered once
	sum   [sha256.Size]byte
	env   map[string]string
	tried bool
	seen  map[Query]uint64
	read  map[string]stamp
	miss  []string

	changedAt, lastChange time.Time // times of the first and last change of its inputs since it was last rendered
	renderedAt            time.Time // when a change of its inputs was last rendered
	retryAt               time.Time
	failures              int
	err                   error // error of the last try
}

// open reads and parses one template.
func (r *Runner) open(ctx context.Context, spec *model.Template) (*rendered, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, text := spec.DestPath, spec.EmbeddedTmpl
	if text == "" {
		name = spec.SourcePath
		raw, _, err := r.files.read(spec.SourcePath, maxSource)
		if err != nil {
			return nil, fmt.Errorf("the source of the template for %q: %w", spec.DestPath, err)
		}
		text = string(raw)
	}
	at, err := r.files.find(spec.DestPath)
	if err != nil {
		return nil, fmt.Errorf("the destination of a template: %w", err)
	}
	mode, err := modeOf(spec)
	if err != nil {
		return nil, err
	}
	if err := r.engine.enter(ctx); err != nil {
		return nil, err
	}
	c, err := r.compile(spec, name, text)
	r.engine.exit()
	if err != nil {
		return nil, err
	}
	return &rendered{compiled: c, at: at, secret: r.files.secret(spec.DestPath), mode: modeAndOwner{mode, ownerOf(spec, r.task)}}, nil
}

// First renders every template once. It waits for missing data, which Waiting lists,
// until ctx ends. It fails at once if a template is wrong, and after
// Config.Retry.Attempts errors of the Source. After an error it can be called again.
func (r *Runner) First(ctx context.Context) error {
	// A restarted task calls First again; by then the loop holds busy.
	if r.isFirst() && r.ctx.Err() == nil {
		return nil
	}
	r.busy.Lock()
	defer r.busy.Unlock()
	if r.closed {
		return errdefs.Canceledf("the templates were closed")
	}
	if r.isFirst() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	if err := r.firstAll(ctx); err != nil {
		r.note(err)
		return err
	}
	r.mu.Lock()
	r.first, r.waiting, r.lastErr = true, nil, nil
	r.mu.Unlock()
	r.prune()
	if r.needsLoop() {
		go r.loop()
	}
	return nil
}

func (r *Runner) firstAll(ctx context.Context) error {
	for {
		left := 0
		for _, t := range r.templates {
			if t.done || t.tried && !r.stale(t) {
				if !t.done {
					left++
				}
				continue
			}
			changed, err := r.render(ctx, t)
			if err != nil {
				return err
			}
			if r.task.Running && changed && t.watches {
				r.announce(t)
			}
			if !t.done {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		r.status()
		if err := r.hopeless(); err != nil {
			return err
		}
		if err := r.await(ctx); err != nil {
			return err
		}
	}
}

// status publishes which data is missing and which errors there are.
func (r *Runner) status() {
	var trouble error
	for _, t := range r.templates {
		if t.err != nil {
			trouble = t.err
		}
	}
	for q := range r.watched {
		if _, err := r.engine.hub.trouble(q); err != nil {
			trouble = fmt.Errorf("%s: %w", q, err)
		}
	}
	missing := r.missing()
	r.mu.Lock()
	r.waiting, r.lastErr = missing, trouble
	r.mu.Unlock()
}

func (r *Runner) missing() []string {
	var out []string
	for _, t := range r.templates {
		out = joined(out, t.miss)
	}
	slices.Sort(out)
	return out
}

// hopeless returns an error if a query for which First waits has failed too often.
func (r *Runner) hopeless() error {
	most, missing := r.engine.cfg.Retry.Attempts, r.missing()
	for q, before := range r.watched {
		n, err := r.engine.hub.trouble(q)
		if err != nil && most > 0 && n-before >= most && slices.Contains(missing, q.String()) {
			return fmt.Errorf("templates cannot read %s, tried %d times: %w", q, n-before, err)
		}
	}
	return nil
}

// await waits until a template may be tried again.
func (r *Runner) await(ctx context.Context) error {
	var poll <-chan time.Time
	if r.readsFiles() {
		timer := time.NewTimer(r.engine.cfg.FilePoll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-r.wake:
	case <-poll:
	case <-ctx.Done():
		return fmt.Errorf("templates wait for data that is missing: %v: %w", r.Waiting(), context.Cause(ctx))
	}
	return nil
}

// stale reports whether an input of a template has changed.
func (r *Runner) stale(t *rendered) bool {
	if r.engine.hub.newer(t.seen) {
		return true
	}
	for path, was := range t.read {
		if now := r.files.stamp(path); !now.modified.Equal(was.modified) || now.size != was.size {
			return true
		}
	}
	return false
}

func (r *Runner) subscribe(q Query) {
	if _, ok := r.watched[q]; !ok {
		r.watched[q] = r.engine.hub.subscribe(q, r)
	}
}

// prune ends watches that no template needs any more.
func (r *Runner) prune() {
	needed := map[Query]bool{}
	for _, t := range r.templates {
		if t.done && t.spec.Once {
			t.seen, t.read = nil, nil
		}
		if t.done && t.err == nil && len(t.seen)+len(t.read) == 0 {
			t.tmpl = nil // never run again
		}
		for q := range t.seen {
			needed[q] = true
		}
	}
	maps.DeleteFunc(r.watched, func(q Query, _ int) bool {
		if !needed[q] {
			r.engine.hub.unsubscribe(q, r)
		}
		return !needed[q]
	})
}

func (r *Runner) readsFiles() bool {
	return slices.ContainsFunc(r.templates, func(t *rendered) bool { return len(t.read) > 0 })
}

// poke wakes the runner; it never blocks.
func (r *Runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Runner) joinEnv() {
	env := Vars{Plain: map[string]string{}, Secret: map[string]string{}}
	for _, t := range r.templates {
		own, other := env.Plain, env.Secret
		if t.secret {
			own, other = other, own
		}
		for name, value := range t.env {
			delete(other, name)
			own[name] = value
		}
	}
	r.mu.Lock()
	r.env = env
	r.mu.Unlock()
}

func (r *Runner) isFirst() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

func (r *Runner) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastErr = err
}

// Vars are the variables from templates with env = true. Those of a template whose file is
// in the task's folder for secrets are secrets. No name is in both.
type Vars struct{ Plain, Secret map[string]string }

// Env returns the variables of the templates; a later template wins.
func (r *Runner) Env() Vars {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Vars{maps.Clone(r.env.Plain), maps.Clone(r.env.Secret)}
}

// Waiting names the data that First waits for, such as nomad.var.block(nomad/jobs/web).
func (r *Runner) Waiting() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting)
}

// LastError is the last thing that went wrong and has not gone right since.
func (r *Runner) LastError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastErr
}

// Changes returns a channel that delivers the required actions after First. Close closes
// it. A change that is not received is combined with later ones. It is nil if no template
// has inputs that can change.
func (r *Runner) Changes() <-chan Change {
	if !slices.ContainsFunc(r.templates, func(t *rendered) bool { return t.watches }) {
		return nil
	}
	return r.changes
}

// Close stops rendering and watching, including a running First. It may be called
// repeatedly.
func (r *Runner) Close() {
	r.cancel()
	r.busy.Lock()
	defer r.busy.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for q := range r.watched {
		r.engine.hub.unsubscribe(q, r)
	}
	clear(r.watched)
	close(r.changes)
}
