// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Plugin keeps one plugin running. A single goroutine, run, owns its process; all
// other work on the process is passed to it as an operation, so that operations on one
// plugin never overlap.
type Plugin struct {
	shared *Shared
	name   string
	asked  chan operation
	stop   context.CancelFunc
	ended  chan struct{} // closed when run has returned

	wake      bell       // rings when a process is wanted
	probation *probation // used by run only
	absences  int        // checks in a row that found nothing for it here; used by run only
	freedAt   time.Time  // when names were last claimed that had become free
	patience  time.Time  // until when it runs although it is withdrawn and has no tasks

	mu     sync.Mutex
	file   process.File
	tried  string // identity of the file in plugin_dir that was last processed
	mode   Mode
	status Status
}

// operation is a request to run. It receives the current process, nil if there is
// none, and returns the current process after it.
type operation struct {
	do   func(ctx context.Context, now *live) (*live, error)
	done chan error
}

// keptAtLeast is how long a plugin that was disabled or removed before the agent's
// start runs, so that the agent can recover its tasks.
const keptAtLeast = time.Minute

// Start makes a plugin and begins to run it, until ctx ends or Stop. firstDone is
// called once the first attempt has ended; without it the plugin first waits for an
// operation.
func Start(ctx context.Context, shared *Shared, f process.File, m Mode, firstDone func()) *Plugin {
	ctx, cancel := context.WithCancel(ctx)
	s := &Plugin{
		shared: shared, name: f.Name, file: f, mode: m, asked: make(chan operation), stop: cancel, ended: make(chan struct{}), wake: newBell(),
		status: Status{Name: f.Name, Path: f.Path, State: StateStarting},
	}
	if m != On {
		s.patience = time.Now().Add(keptAtLeast)
	}
	idle := firstDone == nil
	if idle {
		firstDone = func() {}
	}
	if m == Disabled && !shared.Catalog.Get(f.Name).Kept {
		idle = true
		s.status.State = StateDisabled
		firstDone()
	}
	shared.Go(func() { s.run(ctx, idle, firstDone) })
	return s
}

// StartResting makes a plugin that has no process until one is demanded.
func StartResting(ctx context.Context, shared *Shared, f process.File) *Plugin {
	ctx, cancel := context.WithCancel(ctx)
	s := &Plugin{
		shared: shared, name: f.Name, file: f, asked: make(chan operation), stop: cancel, ended: make(chan struct{}), wake: newBell(),
		status: Status{Name: f.Name, Path: f.Path, State: StateResting},
	}
	s.note(process.Identity(f.Path))
	shared.Go(func() {
		s.noteDigest(ctx, nil)
		s.run(ctx, true, func() {})
	})
	return s
}

// Stop ends the plugin and its process, and returns when they have ended.
func (s *Plugin) Stop() {
	s.stop()
	<-s.ended
}

// Name is the plugin's name.
func (s *Plugin) Name() string { return s.name }

// Demand starts a process at once if the plugin rests, that is, has none because nobody
// needed it.
func (s *Plugin) Demand() { s.wake.ring() }

// ask has run carry out an operation and returns its outcome.
func (s *Plugin) ask(ctx context.Context, do func(context.Context, *live) (*live, error)) error {
	op := operation{do: do, done: make(chan error, 1)}
	select {
	case s.asked <- op:
		return <-op.done
	case <-s.ended:
		return errdefs.Abortedf("plugin %q: it was stopped meanwhile", s.name)
	case <-ctx.Done():
		return fmt.Errorf("plugin %q: wait for the end of another operation on it: %w", s.name, ctx.Err())
	}
}

// File is what the plugin runs.
func (s *Plugin) File() process.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

func (s *Plugin) moveTo(f process.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = f
}

func (s *Plugin) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Names = out.Names.Clone()
	if out.process != nil {
		out.Stacks = out.process.Stacks()
	}
	if out.State == StateRunning {
		if why := s.shared.Kinds.Unanswering(out.Names); why != nil {
			out.State, out.LastError = StateNotAnswering, why
		}
	}
	return out
}

func (s *Plugin) set(f func(*Status)) {
	s.mu.Lock()
	f(&s.status)
	s.mu.Unlock()
	s.shared.Changed()
}

// noteDigest determines the file's digest if it is not known yet, and stores a copy of
// a working version. It runs in the background, because the file may be large.
func (s *Plugin) noteDigest(ctx context.Context, now *live) {
	f := s.File()
	if f.Of != "" { // the plugin's own does
		return
	}
	digest, err := s.shared.Versions.Digest(f.Binary())
	if err != nil {
		s.shared.Logger.Debug("the digest of a plugin could not be computed", "plugin", s.name, "error", err)
		return
	}
	if s.snapshot().Digest != digest {
		s.set(func(st *Status) { st.Digest = digest })
	}
	if now != nil && now.proc.Identity == process.Identity(f.Binary()) {
		s.remember(ctx, f, digest)
	}
}

// run starts the plugin again and again until ctx ends; with idle it first waits for
// an operation. firstDone is called after the first attempt.
func (s *Plugin) run(ctx context.Context, idle bool, firstDone func()) {
	defer close(s.ended)
	defer firstDone()
	defer s.set(func(st *Status) { st.State, st.PID = StateStopped, 0 })
	retry := time.NewTimer(0)
	defer retry.Stop()
	if idle {
		retry.Stop()
	}
	looks := time.NewTicker(s.shared.Pings.Interval)
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
			if s.startFreed(now) {
				retry.Reset(0)
				continue
			}
			now = s.settled(ctx, s.takeFreed(ctx, now), retry)
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
func (s *Plugin) afterFailure(ctx context.Context, err error, begun time.Time, past *failures, retry *time.Timer) *live {
	if back := s.crashed(ctx, err); back != nil {
		*past = failures{}
		return back
	}
	if s.rests() {
		s.restAfter(err)
		return nil
	}
	pause := past.add(begun, time.Now(), &s.shared.Timing)
	s.failed(err, pause, past.loop)
	retry.Reset(pause)
	return nil
}

// failed records why a process failed and how the plugin continues.
func (s *Plugin) failed(err error, pause time.Duration, loop bool) {
	s.shared.Logger.Error("plugin failed and will be started again", "plugin", s.name, "in", pause, "crash_loop", loop, "error", err)
	s.set(func(st *Status) {
		st.State, st.CrashLoop = StateBackingOff, loop
		if loop {
			st.State = StateCrashLoop
		}
		st.LastError, st.LastFailure, st.FailedPID, st.PID = err, err, st.PID, 0
		st.Restarts++
	})
}

// recovered ends a crash loop, because a process has run steadily.
func (s *Plugin) recovered() {
	if st := s.snapshot(); st.CrashLoop && st.PID != 0 {
		s.set(func(st *Status) { st.CrashLoop = st.PID == 0 })
	}
}

// start runs one process and offers what it serves.
func (s *Plugin) start(ctx context.Context, first bool) (*live, error) {
	s.set(func(st *Status) {
		if !st.State.Rests() { // until it has looked
			st.State = StateStarting
		}
	})
	p, err := s.process(ctx, first)
	if err != nil {
		return nil, err
	}
	parts, err := s.shared.Kinds.Attach(ctx, p)
	if err != nil {
		p.Kill()
		return nil, err
	}
	if m := s.Mode(); m != On {
		s.shared.Kinds.Refuse(s.name, withdrawn(s.name, m))
	}
	run, cancel := context.WithCancel(ctx)
	now := s.serve(run, cancel, p, parts)
	for _, one := range parts {
		one.Open(run, s.configs(parts))
	}
	return now, nil
}

// process reattaches the process of an earlier agent, or launches one.
func (s *Plugin) process(ctx context.Context, first bool) (*process.Process, error) {
	f := s.File()
	s.note(process.Identity(f.Path))
	if first {
		p, err := s.shared.Launcher.Reattach(ctx, f)
		if err != nil {
			s.shared.Logger.Warn("plugin process of before cannot be used; a new one is started", "plugin", s.name, "error", err)
		}
		if p != nil {
			return p, nil
		}
	}
	p, err := s.shared.Launcher.Launch(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := s.shared.Launcher.Save(ctx, p); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// serve makes the process the current one and watches it from now on, because a plugin
// may also hang during configuration or recovery. ctx is the context of its parts.
func (s *Plugin) serve(ctx context.Context, cancel context.CancelFunc, p *process.Process, parts kinds.Parts) *live {
	now := &live{proc: p, parts: parts, began: time.Now(), cancel: cancel, lost: make(chan error, 1)}
	s.set(func(st *Status) {
		if !st.State.Rests() {
			st.State = s.mode.state(StateRunning)
		}
		st.Version, st.PID, st.LastError = p.Info.Version, p.PID, nil
		st.Reattached, st.Granted, st.TLS, st.Socket, st.process = p.Reattached, &p.Granted, p.TLS(), p.Socket(), p
		st.Names = parts.Of(s.shared.Kinds)
	})
	if err := s.shared.Catalog.Own(ctx, s.name, parts.IDs()); err != nil {
		s.shared.Logger.Warn("after a restart of the agent, another plugin may serve the names of this one", "plugin", s.name, "error", err)
	}
	for _, w := range s.shared.Kinds.Warnings(s.name) {
		s.shared.Logger.Warn("a part of the plugin is left out", "plugin", s.name, "reason", w)
	}
	s.shared.Logger.Debug("plugin runs", "plugin", s.name, "version", p.Info.Version, "pid", p.PID, "reattached", p.Reattached)
	steady := time.AfterFunc(s.shared.Steady, s.recovered)
	s.shared.Go(func() {
		now.lost <- p.Watch(ctx, s.shared.Pings)
		steady.Stop()
		cancel()
	})
	return now
}

// end handles the end of the host.
func (s *Plugin) end(now *live) {
	if now == nil {
		return
	}
	now.detach(context.Canceled)
	if s.shared.Keep() && s.File().Of == "" { // an instance is asked for again by the next agent
		now.proc.Leave()
		return
	}
	now.proc.Stop()
	s.shared.Launcher.Forget(s.name)
}
