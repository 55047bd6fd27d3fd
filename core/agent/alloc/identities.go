// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Identities signs the tokens of tasks; servers do.
type Identities interface {
	// Sign returns a token for each name of an identity of the task. PermissionDenied: the
	// alloc has ended. Unavailable: ask again.
	Sign(ctx context.Context, allocID, task string, names []string) ([]Token, error)
}

// Token is a signed token. A TTL of 0 means that it ends with the alloc.
type Token struct {
	Name string
	JWT  string
	TTL  time.Duration
}

// API serves the sockets by which tasks reach their agent. *taskapi.Listener implements it.
type API interface {
	Open(dir allocdir.Dir, task string) error
	Shut(dir allocdir.Dir, task string)
}

// tokens are the tokens of one task.
type tokens struct {
	signing sync.Mutex // held while tokens are asked for and written

	// These are guarded by Runner.mu.
	login string               // secret of the login at Consul; "" if there is none, or none yet
	known map[string]string    // by the name of the identity; empty after a restart of the agent
	renew map[string]time.Time // when to replace tokens with a lifetime; stored
	timer *time.Timer
}

const (
	renewTry   = 30 * time.Second // the limit of one attempt
	renewPause = time.Minute      // the longest pause between two
)

// identify gives the task the tokens for which it asks. Those that it has and that need not
// be renewed stay.
func (p *preparation) identify(ctx context.Context) error {
	shown := p.task.ShownIdentities()
	if len(shown) == 0 {
		return nil
	}
	if p.cfg.Identities == nil {
		return errdefs.InvalidArgumentf("task %q has identities, which this node cannot get tokens for", p.name)
	}
	err := p.step(ctx, StepIdentities, p.cfg.Limits.Identities, func(ctx context.Context) error {
		t := p.tasks[p.name]
		t.tokens.signing.Lock()
		defer t.tokens.signing.Unlock()
		for pause := retryMin; ; pause = min(2*pause, retryMax) {
			err := p.sign(ctx, p.name, shown, p.wanting(p.name, shown))
			if err == nil || !errdefs.IsUnavailable(err) || !p.pauseIn(ctx, pause) {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("get the tokens of the task's identities: %w", err)
	}
	p.awaitRenewal(p.name)
	p.env = p.environment(p.alloc, p.task, p.info.Capabilities, p.rendered(p.name))
	return nil
}

// wanting returns the names of the identities without a token that is good for a while.
func (r *Runner) wanting(name string, of []*model.WorkloadIdentity) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tasks[name].tokens
	for _, id := range of {
		at, ends := t.renew[id.Name]
		if t.known[id.Name] == "" || ends != (id.TTL > 0) || ends && !r.cfg.Now().Before(at) {
			names = append(names, id.Name)
		}
	}
	return names
}

// sign gets tokens for the names, and writes the files of all identities. The caller holds
// the task's tokens.signing.
func (r *Runner) sign(ctx context.Context, name string, of []*model.WorkloadIdentity, names []string) error {
	if err := r.getTokens(ctx, name, of, names); err != nil {
		return err
	}
	return r.writeTokens(name, of)
}

func (r *Runner) getTokens(ctx context.Context, name string, of []*model.WorkloadIdentity, names []string) error {
	if len(names) == 0 {
		return nil
	}
	signed, err := r.cfg.Identities.Sign(ctx, r.id, name, names)
	if err != nil {
		return err
	}
	r.keepTokens(name, of, signed)
	r.knowSecrets(name, r.rendered(name).Secret)
	return nil
}

// keepTokens stores the signed tokens, and when they must be renewed: at half of its
// lifetime, or a little before.
func (r *Runner) keepTokens(name string, of []*model.WorkloadIdentity, signed []Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.tasks[name]
	t := &run.tokens
	known, renew := map[string]string{}, map[string]time.Time{}
	for _, id := range of { // identities that the job no longer has
		if text, ok := t.known[id.Name]; ok {
			known[id.Name] = text
		}
		if at, ok := t.renew[id.Name]; ok {
			renew[id.Name] = at
		}
	}
	for _, s := range signed {
		known[s.Name] = s.JWT
		delete(renew, s.Name)
		if s.TTL > 0 {
			renew[s.Name] = r.cfg.Now().Add(s.TTL/2 - time.Duration(float64(s.TTL/20)*r.cfg.Jitter()))
		}
	}
	t.known, t.renew, run.dirty = known, renew, true
}

// writeTokens writes the files of identities whose tokens are known.
func (r *Runner) writeTokens(name string, of []*model.WorkloadIdentity) error {
	_, err := r.writeEach(name, of)
	return err
}

// writeEach does what writeTokens does, and returns the names of the identities whose files
// cannot be written. The files of the others are.
func (r *Runner) writeEach(name string, of []*model.WorkloadIdentity) (failed map[string]bool, err error) {
	r.mu.Lock()
	known, login := r.tasks[name].tokens.known, r.tasks[name].tokens.login
	r.mu.Unlock()
	var problems []error
	if login != "" {
		problems = append(problems, r.dir.WriteSecret(name, consulTokenFile, []byte(login)))
	}
	failed = map[string]bool{}
	for _, id := range of {
		if !id.File || known[id.Name] == "" {
			continue
		}
		if err := r.writeToken(name, id, known[id.Name]); err != nil {
			failed[id.Name], problems = true, append(problems, err)
		}
	}
	return failed, errors.Join(problems...)
}

func (r *Runner) writeToken(name string, id *model.WorkloadIdentity, text string) error {
	file, ok := id.Path()
	if !ok {
		return errdefs.InvalidArgumentf("the filepath %q of identity %q is outside of the task's folder; use one below ${NOMAD_SECRETS_DIR}", id.Filepath, id.Name)
	}
	return r.dir.WriteSecret(name, file, []byte(text))
}

// tokenVars returns the variables of a task that have its tokens.
func (r *Runner) tokenVars(t *model.Task) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for _, id := range t.ShownIdentities() {
		if text := r.tasks[t.Name].tokens.known[id.Name]; id.Env && text != "" {
			out[id.Variable()] = text
		}
	}
	if login := r.tasks[t.Name].tokens.login; login != "" {
		for _, name := range consulTokenVars {
			out[name] = login
		}
	}
	return out
}

// withTokens adds the tokens of a task to the secrets of its templates, whose variables have
// precedence.
func (r *Runner) withTokens(t *model.Task, rendered template.Vars) map[string]string {
	vars := r.tokenVars(t)
	if len(vars) == 0 {
		return rendered.Secret
	}
	for name := range rendered.Plain {
		delete(vars, name)
	}
	maps.Copy(vars, rendered.Secret)
	return vars
}

// rendered returns the variables of the task's templates, while they are open.
func (r *Runner) rendered(name string) template.Vars {
	r.mu.Lock()
	open := r.tasks[name].rendering
	r.mu.Unlock()
	if open == nil {
		return template.Vars{}
	}
	return open.Env()
}

// awaitRenewal sets the timer of the next renewal.
func (r *Runner) awaitRenewal(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tasks[name].tokens
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.renew) == 0 || r.closed {
		return
	}
	next := slices.MinFunc(slices.Collect(maps.Values(t.renew)), time.Time.Compare)
	t.timer = time.AfterFunc(next.Sub(r.cfg.Now()), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			r.work.Go(func() { r.renew(name) })
		}
	})
}

// resumeTokens continues the renewal of tokens that an earlier agent process received.
func (r *Runner) resumeTokens(name string) {
	r.mu.Lock()
	t := &r.tasks[name].tokens
	waits := t.timer == nil && len(t.renew) > 0 && r.cfg.Identities != nil
	r.mu.Unlock()
	if waits {
		r.awaitRenewal(name)
	}
}

// renew replaces the tokens of a task that are due, and notifies the task as its identities
// ask. It tries until it succeeds or the task has ended; until then the task keeps the
// tokens that it has.
func (r *Runner) renew(name string) {
	logged, untold := false, map[string]bool{}
	for pause := retryMin; ; pause = min(2*pause, renewPause) {
		r.mu.Lock()
		phase, job := r.tasks[name].state.Phase, r.tasks[name].job
		r.mu.Unlock()
		if phase != task.Running && phase != task.Starting && phase != task.Delaying && phase != task.Stopping {
			return // its next start gets new ones
		}
		renewed, err := r.renewOnce(name, job, untold)
		if err == nil {
			r.awaitRenewal(name)
		}
		r.tellRenewed(name, renewed)
		switch {
		case err == nil:
			return
		case r.ctx.Err() != nil, errdefs.IsPermissionDenied(err): // the alloc has ended for the servers
			return
		case !logged:
			logged = true
			r.logger.Warn("tokens of a task cannot be renewed; it keeps those that it has, and they are asked for again", "task", name, "error", err)
		}
		if !r.pause(r.untilRenewal(name, pause)) {
			return
		}
	}
}

// untilRenewal returns the time until a token of the task is due, but no more than most.
func (r *Runner) untilRenewal(name string, most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.tasks[name].tokens.renew {
		if left := at.Sub(r.cfg.Now()); left > 0 {
			most = min(most, left)
		}
	}
	return most
}

// renewOnce replaces the tokens of a task that are due, and returns the identities of which the
// task has new ones. untold has the names of those that it got before and that could not be
// written; it is updated.
func (r *Runner) renewOnce(name string, job *model.Task, untold map[string]bool) (renewed []*model.WorkloadIdentity, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, renewTry)
	defer cancel()
	t := &r.tasks[name].tokens
	t.signing.Lock()
	defer t.signing.Unlock()
	of := job.ShownIdentities()
	r.mu.Lock()
	now := r.cfg.Now()
	var names []string
	for _, id := range of {
		if at, ends := t.renew[id.Name]; ends && !now.Before(at) {
			names = append(names, id.Name)
		}
	}
	if len(names) == 0 {
		t.renew = maps.Clone(t.renew)
		maps.DeleteFunc(t.renew, func(name string, at time.Time) bool { return !now.Before(at) }) // tokens of identities that no longer exist
	}
	r.mu.Unlock()
	if len(names)+len(untold) == 0 {
		return nil, nil
	}
	if err := r.getTokens(ctx, name, of, names); err != nil {
		return nil, err
	}
	for _, n := range names {
		untold[n] = true
	}
	failed, err := r.writeEach(name, of)
	for _, id := range of {
		if untold[id.Name] && !failed[id.Name] {
			renewed = append(renewed, id)
			delete(untold, id.Name)
		}
	}
	return renewed, err
}

// tellRenewed carries out the change_mode of identities with new tokens.
func (r *Runner) tellRenewed(name string, renewed []*model.WorkloadIdentity) {
	var restart []string
	signals := map[string][]string{}
	for _, id := range renewed {
		switch id.ChangeMode {
		case "restart":
			restart = append(restart, id.Name)
		case "signal":
			signals[id.ChangeSignal] = append(signals[id.ChangeSignal], id.Name)
		}
	}
	r.mu.Lock()
	phase := r.tasks[name].state.Phase
	r.mu.Unlock()
	reason := func(names []string) string { return "Identity " + strings.Join(names, ", ") + " renewed" }
	switch {
	case phase != task.Running && phase != task.Starting:
	case len(restart) > 0:
		r.post(name, task.Restart{Reason: reason(restart) + " with change_mode restart"})
	case phase == task.Running:
		for _, signal := range slices.Sorted(maps.Keys(signals)) {
			r.signalForChange(r.ctx, name, signal, "Identity", reason(signals[signal]))
		}
	}
}

// openAPI opens the task's socket. A task that cannot have one runs without it.
func (r *Runner) openAPI(name string) {
	if r.cfg.API == nil {
		return
	}
	if err := r.cfg.API.Open(r.dir, name); err != nil {
		r.logger.Warn("the task has no socket to reach the agent", "task", name, "socket", model.APISocket, "error", err)
	}
}

// shutAPI ends the task's socket.
func (r *Runner) shutAPI(name string) {
	if r.cfg.API != nil {
		r.cfg.API.Shut(r.dir, name)
	}
}
