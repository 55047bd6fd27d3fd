// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

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
	file   file
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
	proc   *process
	parts  []part
	began  time.Time
	cancel context.CancelFunc
	lost   chan error // receives, once, why it can no longer serve
}

func newSupervised(h *Host, f file) *supervised {
	return &supervised{
		host: h, name: f.name, file: f, asked: make(chan operation), ended: make(chan struct{}), wake: newBell(),
		status: PluginStatus{Name: f.name, Path: f.path, State: StateStarting},
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

func (s *supervised) where() file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

func (s *supervised) moveTo(f file) {
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
		why := s.host.drivers.unanswering(out.Drivers)
		if why == nil {
			why = s.host.devices.unanswering(out.Devices)
		}
		if why != nil {
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
	digest, err := s.host.digests.of(f.binary())
	if err != nil {
		s.host.cfg.Logger.Debug("the digest of a plugin cannot be told", "plugin", s.name, "error", err)
		return
	}
	if s.snapshot().Digest != digest {
		s.set(func(st *PluginStatus) { st.Digest = digest })
	}
	if now != nil && now.proc.identity == identity(f.binary()) {
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
	parts, err := s.host.attach(ctx, s.name, p)
	if err != nil {
		p.kill()
		return nil, err
	}
	if m := s.modeNow(); m != modeOn {
		s.host.refuse(s.name, withdrawn(s.name, m))
	}
	run, cancel := context.WithCancel(ctx)
	now := s.serve(run, cancel, p, parts)
	for _, one := range parts {
		one.open(run, s.host.configs(s.name, parts))
	}
	return now, nil
}

// process reattaches the process of an earlier agent, or launches one.
func (s *supervised) process(ctx context.Context, first bool) (*process, error) {
	f := s.where()
	s.note(identity(f.path))
	if first {
		p, err := s.host.reattach(ctx, f)
		if err != nil {
			s.host.cfg.Logger.Warn("plugin process of before cannot be used; a new one is started", "plugin", s.name, "error", err)
		}
		if p != nil {
			return p, nil
		}
	}
	p, err := s.host.launch(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := s.host.save(ctx, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// serve makes the process the current one and watches it from now on, because a plugin
// may also hang during configuration or recovery. ctx is the context of its parts.
func (s *supervised) serve(ctx context.Context, cancel context.CancelFunc, p *process, parts []part) *live {
	now := &live{proc: p, parts: parts, began: time.Now(), cancel: cancel, lost: make(chan error, 1)}
	s.set(func(st *PluginStatus) {
		if !st.State.rests() {
			st.State = s.mode.state(StateRunning)
		}
		st.Version, st.PID, st.LastError = p.info.Version, p.pid, nil
		st.Reattached, st.Drivers, st.Devices = p.reattached, names(parts, isDriver), names(parts, isDevice)
		st.Collectors = names(parts, isCollector)
	})
	s.host.cfg.Logger.Debug("plugin runs", "plugin", s.name, "version", p.info.Version, "pid", p.pid, "reattached", p.reattached)
	steady := time.AfterFunc(s.host.cfg.Steady, s.recovered)
	s.host.done.Go(func() {
		now.lost <- s.watch(ctx, p)
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
	l.proc.kill()
}

func (l *live) detach(reason error) {
	l.cancel()
	for _, one := range l.parts {
		one.detach(reason)
	}
}

// end handles the end of the host.
func (s *supervised) end(now *live) {
	if now == nil {
		return
	}
	now.detach(context.Canceled)
	if s.host.keeping() {
		now.proc.leave()
		return
	}
	now.proc.stop()
	s.host.forgetProcess(s.name)
}

// watch returns when the process is gone or hung, or ctx ends.
func (s *supervised) watch(ctx context.Context, p *process) error {
	cfg := &s.host.cfg
	lost := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		waitNotReady(watching, p.conn)
		close(lost)
	})
	ticker := time.NewTicker(cfg.PingInterval)
	defer ticker.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errdefs.Unavailablef("plugin %s (pid %d): %s", p.file.path, p.pid, p.fate())
		case <-ticker.C:
		}
		err := p.ping(ctx, cfg.PingTimeout)
		if err == nil {
			failures = 0
			continue
		}
		if isClosed(lost) {
			continue // it does not hang, it is gone
		}
		if failures++; failures >= cfg.PingFailures && ctx.Err() == nil {
			return errdefs.Unavailablef("plugin %s (pid %d): is hung, so it is killed: %d pings in a row had no answer: %w", p.file.path, p.pid, failures, err)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *process) ping(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := p.ask(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// waitNotReady returns when the connection is lost, which reveals the end of a process
// at once, even of one that is not our child.
func waitNotReady(ctx context.Context, conn *grpc.ClientConn) {
	for state := conn.GetState(); state == connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}
