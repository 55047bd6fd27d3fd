// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// mode is what an operator wants of a plugin.
type mode int

const (
	modeOn       mode = iota
	modeDisabled      // runs only while tasks need it, and accepts no new ones
	modeGone          // like disabled, and its file was removed; it is forgotten after its last task
)

func (s *supervised) setMode(m mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

func (s *supervised) modeNow() mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// state is the one to show for a running or resting plugin.
func (m mode) state(otherwise State) State {
	switch m {
	case modeDisabled:
		return StateDisabled
	case modeGone:
		return StateRemoved
	}
	return otherwise
}

// rests reports whether the plugin should not be started again.
func (s *supervised) rests() bool {
	return s.modeNow() != modeOn && s.host.kinds.Drivers.Tasks(s.name, nil) == 0
}

func (s *supervised) restAfter(err error) {
	s.set(func(st *PluginStatus) {
		st.PID, st.LastError = 0, err
		st.State = s.mode.state(StateStopped)
	})
}

// rest ends the process of a plugin that should no longer run.
func (s *supervised) rest(now *live) *live {
	if now != nil {
		now.detach(errdefs.Unavailablef("plugin %q: it was %s", s.name, s.modeNow().state(StateStopped)))
		now.proc.Stop()
		s.host.launcher.Forget(s.name)
	}
	s.host.kinds.Release(s.name, nil)
	s.set(func(st *PluginStatus) {
		st.PID, st.Reattached, st.State = 0, false, s.mode.state(StateStopped)
	})
	return nil
}

// locks serialize the operations on each plugin. Names without an operation are not
// stored, so that callers may use any name.
type locks struct {
	mu     sync.Mutex
	byName map[string]*turn
}

// turn is the lock of one plugin, with the number of callers that hold it or wait for
// it.
type turn struct {
	taken chan struct{}
	users int
}

func newLocks() *locks { return &locks{byName: map[string]*turn{}} }

func (l *locks) enter(name string) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byName[name]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		l.byName[name] = t
	}
	t.users++
	return t
}

func (l *locks) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byName[name]
	if t.users--; t.users == 0 {
		delete(l.byName, name)
	}
}

// tryLock is lock for callers that will try again later.
func (h *Host) tryLock(name string) (unlock func(), ok bool) {
	t := h.locks.enter(name)
	select {
	case t.taken <- struct{}{}:
		return func() { h.unlock(name, t) }, true
	default:
		h.locks.leave(name)
		return nil, false
	}
}

// lock waits for all other operations on the plugin. Operators' requests wait until
// ctx ends.
func (h *Host) lock(ctx context.Context, name string) (unlock func(), err error) {
	t := h.locks.enter(name)
	select {
	case t.taken <- struct{}{}:
		return func() { h.unlock(name, t) }, nil
	case <-ctx.Done():
		h.locks.leave(name)
		return nil, errdefs.DeadlineExceededf("plugin %q: something else is still being done to it; try again: %w", name, ctx.Err())
	}
}

func (h *Host) unlock(name string, t *turn) {
	<-t.taken
	h.locks.leave(name)
}

// keptAtLeast is how long a plugin that was disabled or removed before the agent's
// start runs, so that the agent can recover its tasks.
const keptAtLeast = time.Minute

// add makes a plugin and begins to run it; h.mu is held.
func (h *Host) add(f process.File, m mode, firstDone func()) *supervised {
	s := newSupervised(h, f)
	s.mode = m
	if m != modeOn {
		s.patience = time.Now().Add(keptAtLeast)
	}
	h.plugins[f.Name] = s
	ctx, cancel := context.WithCancel(h.run)
	s.stop = cancel
	idle := firstDone == nil
	if idle {
		firstDone = func() {}
	}
	if m == modeDisabled && !h.catalog.Get(f.Name).Kept {
		idle = true
		s.status.State = StateDisabled
		firstDone()
	}
	h.done.Go(func() { s.run(ctx, idle, firstDone) })
	return s
}

// bootMode returns the mode that the previous agent stored for a file.
func (h *Host) bootMode(f process.File) mode {
	switch {
	case f.Stored != "":
		return modeGone
	case h.catalog.Get(f.Name).Disabled:
		return modeDisabled
	}
	return modeOn
}

// withKept adds the plugins whose files were removed but which still had tasks when
// the previous agent ended.
func (h *Host) withKept(files []process.File) []process.File {
	for _, name := range h.catalog.Names() {
		m := h.catalog.Get(name)
		if !m.Kept || slices.ContainsFunc(files, func(f process.File) bool { return f.Name == name }) {
			continue
		}
		if stored, ok := h.versions.Has(name, m.Running); ok {
			files = append(files, process.File{Name: name, Path: h.dir.PathOf(name), Stored: stored})
		}
	}
	return files
}

// endLeftovers ends processes that a killed agent left and that no plugin of this host
// takes over.
func (h *Host) endLeftovers(ctx context.Context, files []process.File) error {
	var current []string
	for _, f := range files {
		current = append(current, f.Name)
	}
	return h.launcher.EndLeftovers(ctx, current, h.catalog.Names())
}

// plugin returns a plugin, made if there is none of that name.
func (h *Host) plugin(name string) (s *supervised, fresh bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run == nil || h.closed {
		return nil, false, errdefs.Unavailablef("the plugin host does not run")
	}
	if s := h.plugins[name]; s != nil {
		return s, false, nil
	}
	return h.add(process.File{Name: name, Path: h.dir.PathOf(name)}, modeOn, nil), true, nil
}

// known returns a plugin that there is.
func (h *Host) known(name string) (*supervised, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.plugins[name]; s != nil && !h.closed {
		return s, nil
	}
	return nil, errdefs.NotFoundf("no plugin %q on this node; `drover plugin list` shows those that there are", name)
}

func (h *Host) one(name string) (PluginStatus, error) {
	s, err := h.known(name)
	if err != nil {
		return PluginStatus{}, err
	}
	return h.complete(s.snapshot()), nil
}

// Plugin returns one plugin.
func (h *Host) Plugin(name string) (PluginStatus, error) { return h.one(name) }

// complete adds what only the host knows.
func (h *Host) complete(st PluginStatus) PluginStatus {
	m := h.catalog.Get(st.Name)
	st.Previous, st.Bad, st.Work = m.Previous, m.Bad, h.works.Get(st.Name)
	st.Tasks = h.kinds.Drivers.Tasks(st.Name, nil)
	return st
}

// drop ends a plugin's goroutine and forgets it. Its process is ended, too.
func (h *Host) drop(s *supervised) {
	s.stop()
	<-s.ended
	h.kinds.Release(s.name, nil)
	h.launcher.Release(s.name)
	h.mu.Lock()
	if h.plugins[s.name] == s {
		delete(h.plugins, s.name)
	}
	h.mu.Unlock()
	h.changed.raise()
}

// Remove ends a plugin and removes its file. FailedPrecondition: it has tasks, and
// force is not set. With force its tasks keep running without supervision, until a
// plugin with their driver is installed again.
func (h *Host) Remove(ctx context.Context, name string, force bool) error {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil && h.works.Get(name) != nil {
		h.works.Forget(name) // a failed first install leaves nothing else
		return nil
	}
	if err != nil {
		return err
	}
	if n := h.kinds.Drivers.Tasks(name, nil); n > 0 && !force {
		return errdefs.FailedPreconditionf("plugin %q has %d tasks: stop them first, disable it, which lets them end by themselves, or remove it by force, which leaves them unattended", name, n)
	}
	if err := h.dir.Remove(s.where().Path); err != nil {
		return err
	}
	if err := h.catalog.Forget(ctx, name); err != nil {
		return err
	}
	h.drop(s)
	h.versions.Prune(name)
	h.works.Forget(name)
	h.cfg.Logger.Info("plugin removed", "plugin", name)
	return nil
}

// Disable makes a plugin accept no new tasks. Running tasks continue and stay
// reachable; after the last one the process is ended. It stays disabled across
// restarts of the agent.
func (h *Host) Disable(ctx context.Context, name string) error {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil {
		return err
	}
	return s.withdraw(ctx, modeDisabled)
}

// withdraw makes a plugin end once no task needs it.
func (s *supervised) withdraw(ctx context.Context, m mode) error {
	h := s.host
	if s.modeNow() == m {
		return nil
	}
	kept := h.kinds.Drivers.Tasks(s.name, nil) > 0
	err := h.catalog.Change(ctx, s.name, func(memo *install.Memo) { memo.Disabled, memo.Kept = m == modeDisabled, kept })
	if err != nil {
		return err
	}
	s.setMode(m)
	h.kinds.Refuse(s.name, withdrawn(s.name, m))
	s.set(func(st *PluginStatus) { st.State = m.state(st.State) })
	h.cfg.Logger.Info("plugin takes no new tasks", "plugin", s.name, "because", m.state(""))
	return s.settle(ctx)
}

func withdrawn(name string, m mode) error {
	return errdefs.FailedPreconditionf("plugin %q is %s and takes no new tasks", name, m.state(""))
}

// settle ends the process of a withdrawn plugin that has no tasks.
func (s *supervised) settle(ctx context.Context) error {
	if !s.rests() || time.Now().Before(s.patience) {
		return nil
	}
	err := s.ask(ctx, func(_ context.Context, now *live) (*live, error) {
		if !s.rests() {
			return now, nil
		}
		return s.rest(now), nil
	})
	if err != nil || s.snapshot().PID != 0 || !s.host.catalog.Get(s.name).Kept {
		return err
	}
	return s.host.catalog.Change(ctx, s.name, func(m *install.Memo) { m.Kept = false })
}

// Enable reverses Disable.
func (h *Host) Enable(ctx context.Context, name string) error {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil {
		return err
	}
	if s.modeNow() == modeGone {
		return errdefs.FailedPreconditionf("plugin %q: its file is gone from %s; install it", name, h.cfg.Dir)
	}
	if err := h.catalog.Change(ctx, name, func(m *install.Memo) { m.Disabled, m.Kept = false, false }); err != nil {
		return err
	}
	s.setMode(modeOn)
	h.kinds.Refuse(name, nil)
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) { return s.rouse(ctx, now) })
}

// rouse starts a process if none runs, and updates the status.
func (s *supervised) rouse(ctx context.Context, now *live) (*live, error) {
	if now != nil {
		s.set(func(st *PluginStatus) { st.State = s.mode.state(StateRunning) })
		return now, nil
	}
	now, err := s.start(ctx, false)
	if err != nil {
		s.set(func(st *PluginStatus) { st.State, st.LastError = StateBackingOff, err })
	}
	return now, err
}

// Reload starts a new process of a plugin beside the running one, which stays if the
// new one does not become ready. A plugin that waits for its next start is started at
// once, and bad versions may be tried again.
func (h *Host) Reload(ctx context.Context, name string) (err error) {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil {
		return err
	}
	if s.modeNow() != modeOn {
		return errdefs.FailedPreconditionf("plugin %q is %s; enable or install it first", name, s.modeNow().state(""))
	}
	if err := h.catalog.Change(ctx, name, func(m *install.Memo) { m.Bad = nil }); err != nil {
		return err
	}
	f := s.where()
	digest, err := h.versions.Digest(f.Binary())
	if err != nil {
		return err
	}
	c := candidate{file: f, digest: digest, config: h.catalog.Get(name).Config}
	end := h.works.Begin(name, "reload")
	defer func() { end(err) }()
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) {
		if now == nil {
			return s.rouse(ctx, nil)
		}
		next, err := s.upgrade(ctx, now, c)
		if err != nil {
			s.set(func(st *PluginStatus) { st.UpgradeError = err })
			return next, fmt.Errorf("reload plugin %q: the process before goes on: %w", name, err)
		}
		return next, nil
	})
}

// remember records the working version, to which a rollback returns.
func (h *Host) remember(ctx context.Context, f process.File, digest string) {
	m := h.catalog.Get(f.Name)
	if _, ok := h.versions.Has(f.Name, digest); ok && m.Running == digest {
		return
	}
	_, err := h.versions.Keep(f.Name, digest, f.Binary())
	if err == nil {
		err = h.catalog.Change(ctx, f.Name, func(m *install.Memo) {
			if m.Running != "" && m.Running != digest {
				m.Previous = m.Running
			}
			m.Running = digest
		})
	}
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Warn("no copy of the plugin's version is kept, so a bad upgrade cannot be rolled back", "plugin", f.Name, "error", err)
		return
	}
	h.prune(f.Name)
}
