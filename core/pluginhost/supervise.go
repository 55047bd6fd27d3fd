// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// supervised keeps one plugin running. A single goroutine, run, owns its process; all
// other work on the process is passed to it as an operation, so that operations on one
// plugin never overlap.
type supervised struct {
	host  *Host
	name  string
	asked chan operation
	stop  context.CancelFunc
	ended chan struct{} // closed when run has returned

	wake      bell       // rings when a process is wanted
	probation *probation // of run
	patience  time.Time  // until when it runs although it is withdrawn and has no tasks

	mu     sync.Mutex
	file   process.File
	tried  string // identity of the file in plugin_dir that was last processed
	mode   mode
	status PluginStatus
}

// operation is a request to run. It receives the current process, nil if there is
// none, and returns the current process after it.
type operation struct {
	do   func(ctx context.Context, now *live) (*live, error)
	done chan error
}

// live is a process that currently serves.
type live struct {
	proc   *process.Process
	parts  kinds.Parts
	began  time.Time
	cancel context.CancelFunc
	lost   chan error // receives, once, why it can no longer serve
}

func newSupervised(h *Host, f process.File) *supervised {
	return &supervised{
		host: h, name: f.Name, file: f, asked: make(chan operation), ended: make(chan struct{}), wake: newBell(),
		status: PluginStatus{Name: f.Name, Path: f.Path, State: StateStarting},
	}
}

// ask has run carry out an operation and returns its outcome.
func (s *supervised) ask(ctx context.Context, do func(context.Context, *live) (*live, error)) error {
	op := operation{do: do, done: make(chan error, 1)}
	select {
	case s.asked <- op:
		return <-op.done
	case <-s.ended:
		return errdefs.Abortedf("plugin %q: it was stopped meanwhile", s.name)
	case <-ctx.Done():
		return fmt.Errorf("plugin %q: wait for what is being done to it: %w", s.name, ctx.Err())
	}
}

func (s *supervised) where() process.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

func (s *supervised) moveTo(f process.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = f
}

func (s *supervised) snapshot() PluginStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Drivers, out.Devices = slices.Clone(out.Drivers), slices.Clone(out.Devices)
	out.Collectors = slices.Clone(out.Collectors)
	if out.State == StateRunning {
		if why := s.host.kinds.Unanswering(out.Drivers, out.Devices); why != nil {
			out.State, out.LastError = StateNotAnswering, why
		}
	}
	return out
}

func (s *supervised) set(f func(*PluginStatus)) {
	s.mu.Lock()
	f(&s.status)
	s.mu.Unlock()
	s.host.changed.raise()
}

// noteDigest determines the file's digest if it is not known yet, and stores a copy of
// a working version. It runs in the background, because the file may be large.
func (s *supervised) noteDigest(ctx context.Context, now *live) {
	f := s.where()
	digest, err := s.host.versions.Digest(f.Binary())
	if err != nil {
		s.host.cfg.Logger.Debug("the digest of a plugin cannot be told", "plugin", s.name, "error", err)
		return
	}
	if s.snapshot().Digest != digest {
		s.set(func(st *PluginStatus) { st.Digest = digest })
	}
	if now != nil && now.proc.Identity == process.Identity(f.Binary()) {
		s.host.remember(ctx, f, digest)
	}
}

// run starts the plugin again and again until ctx ends; with idle it first waits for
// an operation. firstDone is called after the first attempt.
func (s *supervised) run(ctx context.Context, idle bool, firstDone func()) {
	defer close(s.ended)
	defer firstDone()
	defer s.set(func(st *PluginStatus) { st.State, st.PID = StateStopped, 0 })
	retry := time.NewTimer(0)
	defer retry.Stop()
	if idle {
		retry.Stop()
	}
	looks := time.NewTicker(s.host.cfg.PingInterval)
	defer looks.Stop()
	var now *live
	var past failures
	first := true
	for {
		var err error
		begun := time.Now()
		select {
		case <-ctx.Done():
			s.end(now)
			return
		case <-retry.C:
			now, err = s.start(ctx, first)
			first = false
		case err = <-now.ending():
			if ctx.Err() != nil {
				s.end(now)
				return
			}
			begun = now.began
			now.close(err)
			now = nil
		case <-looks.C:
			now = s.settled(ctx, now, retry)
			continue
		case <-s.wanted(now):
			retry.Reset(0)
			continue
		case op := <-s.asked:
			before := now
			now, err = op.do(ctx, now)
			op.done <- err
			first = first && now == nil
			if now != before {
				retry.Stop()
				past = failures{}
			}
			continue
		}
		if err != nil && ctx.Err() == nil {
			now = s.afterFailure(ctx, err, begun, &past, retry)
		}
		firstDone() // the outcome is in the status now
		s.noteDigest(ctx, now)
		now = s.settled(ctx, now, retry)
	}
}

// afterFailure decides how the plugin continues: at once with the previous version,
// not at all, or after a pause.
func (s *supervised) afterFailure(ctx context.Context, err error, begun time.Time, past *failures, retry *time.Timer) *live {
	if back := s.crashed(ctx, err); back != nil {
		*past = failures{}
		return back
	}
	if s.rests() {
		s.restAfter(err)
		return nil
	}
	pause := past.add(begun, time.Now(), &s.host.cfg)
	s.failed(err, pause, past.loop)
	retry.Reset(pause)
	return nil
}

// failed records why a process failed and how the plugin continues.
func (s *supervised) failed(err error, pause time.Duration, loop bool) {
	s.host.cfg.Logger.Error("plugin failed and will be started again", "plugin", s.name, "in", pause, "crash_loop", loop, "error", err)
	s.set(func(st *PluginStatus) {
		st.State, st.CrashLoop = StateBackingOff, loop
		if loop {
			st.State = StateCrashLoop
		}
		st.LastError, st.LastFailure, st.FailedPID, st.PID = err, err, st.PID, 0
		st.Restarts++
	})
}

// recovered ends a crash loop, because a process has run steadily.
func (s *supervised) recovered() {
	if st := s.snapshot(); st.CrashLoop && st.PID != 0 {
		s.set(func(st *PluginStatus) { st.CrashLoop = st.PID == 0 })
	}
}

// start runs one process and offers what it serves.
func (s *supervised) start(ctx context.Context, first bool) (*live, error) {
	s.set(func(st *PluginStatus) {
		if !st.State.rests() { // until it has looked
			st.State = StateStarting
		}
	})
	p, err := s.process(ctx, first)
	if err != nil {
		return nil, err
	}
	parts, err := s.host.attach(ctx, p)
	if err != nil {
		p.Kill()
		return nil, err
	}
	if m := s.modeNow(); m != modeOn {
		s.host.kinds.Refuse(s.name, withdrawn(s.name, m))
	}
	run, cancel := context.WithCancel(ctx)
	now := s.serve(run, cancel, p, parts)
	for _, one := range parts {
		one.Open(run, s.host.configs(s.name, parts))
	}
	return now, nil
}

// attach asks a process for all that it serves, reserves the names, and then puts the
// process under its limits.
func (h *Host) attach(ctx context.Context, p *process.Process) (kinds.Parts, error) {
	parts, err := h.kinds.Attach(ctx, p)
	if err == nil {
		p.Confine()
	}
	return parts, err
}

// process reattaches the process of an earlier agent, or launches one.
func (s *supervised) process(ctx context.Context, first bool) (*process.Process, error) {
	f := s.where()
	s.note(process.Identity(f.Path))
	if first {
		p, err := s.host.launcher.Reattach(ctx, f)
		if err != nil {
			s.host.cfg.Logger.Warn("plugin process of before cannot be used; a new one is started", "plugin", s.name, "error", err)
		}
		if p != nil {
			return p, nil
		}
	}
	p, err := s.host.launcher.Launch(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := s.host.launcher.Save(ctx, p); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// serve makes the process the current one and watches it from now on, because a plugin
// may also hang during configuration or recovery. ctx is the context of its parts.
func (s *supervised) serve(ctx context.Context, cancel context.CancelFunc, p *process.Process, parts kinds.Parts) *live {
	now := &live{proc: p, parts: parts, began: time.Now(), cancel: cancel, lost: make(chan error, 1)}
	s.set(func(st *PluginStatus) {
		if !st.State.rests() {
			st.State = s.mode.state(StateRunning)
		}
		st.Version, st.PID, st.LastError = p.Info.Version, p.PID, nil
		st.Reattached = p.Reattached
		st.Drivers, st.Devices, st.Collectors = parts.Of(s.host.kinds)
	})
	s.host.cfg.Logger.Debug("plugin runs", "plugin", s.name, "version", p.Info.Version, "pid", p.PID, "reattached", p.Reattached)
	steady := time.AfterFunc(s.host.cfg.Steady, s.recovered)
	s.host.done.Go(func() {
		now.lost <- p.Watch(ctx, s.host.pings())
		steady.Stop()
		cancel()
	})
	return now
}

// ending returns the channel that reports the end of the process; nil if there is
// none.
func (l *live) ending() <-chan error {
	if l == nil {
		return nil
	}
	return l.lost
}

// close takes a lost process out of service.
func (l *live) close(reason error) {
	l.detach(reason)
	l.proc.Kill()
}

func (l *live) detach(reason error) {
	l.cancel()
	for _, one := range l.parts {
		one.Detach(reason)
	}
}

// end handles the end of the host.
func (s *supervised) end(now *live) {
	if now == nil {
		return
	}
	now.detach(context.Canceled)
	if s.host.keeping() {
		now.proc.Leave()
		return
	}
	now.proc.Stop()
	s.host.launcher.Forget(s.name)
}
