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

// supervised keeps one plugin running.
type supervised struct {
	host *Host
	file file
	wake bell // rings when the plugin is wanted

	mu     sync.Mutex
	status PluginStatus
}

func newSupervised(h *Host, f file) *supervised {
	return &supervised{host: h, file: f, wake: newBell(), status: PluginStatus{Name: f.name, Path: f.path, State: StateStarting}}
}

func (s *supervised) snapshot() PluginStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Drivers, out.Devices = slices.Clone(out.Drivers), slices.Clone(out.Devices)
	if out.State == StateRunning {
		if why := s.host.drivers.unanswering(out.Drivers); why != nil {
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

// noteDigest reads the file's digest where it is not known yet. It is not waited
// for when a plugin starts: the file may be large.
func (s *supervised) noteDigest() {
	digest, err := s.host.digests.of(s.file.path)
	if err != nil {
		s.host.cfg.Logger.Debug("the digest of a plugin cannot be told", "plugin", s.file.name, "error", err)
		return
	}
	if s.snapshot().Digest != digest {
		s.set(func(st *PluginStatus) { st.Digest = digest })
	}
}

// run starts the plugin again and again until ctx ends. firstDone is called when
// the first try has had its outcome.
func (s *supervised) run(ctx context.Context, firstDone func()) {
	defer firstDone()
	defer s.set(func(st *PluginStatus) { st.State, st.PID = StateStopped, 0 })
	var past failures
	for first := true; ; first = false {
		begin := time.Now()
		err := s.once(ctx, first, firstDone)
		if ctx.Err() != nil {
			return
		}
		pause := past.add(begin, time.Now(), &s.host.cfg)
		s.failed(err, pause, past.loop)
		firstDone() // the outcome is in the status now
		s.noteDigest()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// failed notes why a process failed and how the plugin goes on.
func (s *supervised) failed(err error, pause time.Duration, loop bool) {
	s.host.cfg.Logger.Error("plugin failed and will be started again", "plugin", s.file.name, "in", pause, "crash_loop", loop, "error", err)
	s.set(func(st *PluginStatus) {
		st.State, st.CrashLoop = StateBackingOff, loop
		if loop {
			st.State = StateCrashLoop
		}
		st.LastError, st.LastFailure, st.FailedPID, st.PID = err, err, st.PID, 0
		st.Restarts++
	})
}

// once runs one process of the plugin until it ends, is found hung, or ctx ends.
func (s *supervised) once(ctx context.Context, first bool, ready func()) error {
	s.set(func(st *PluginStatus) { st.State = StateStarting })
	p, err := s.start(ctx, first)
	if err != nil {
		return err
	}
	err = s.serve(ctx, p, ready)
	if ctx.Err() != nil {
		s.end(p)
		return nil
	}
	p.kill()
	return err
}

func (s *supervised) start(ctx context.Context, first bool) (*process, error) {
	if first {
		p, err := s.host.reattach(ctx, s.file)
		if err != nil {
			s.host.cfg.Logger.Warn("plugin process of before cannot be used; a new one is started", "plugin", s.file.name, "error", err)
		}
		if p != nil {
			return p, nil
		}
	}
	p, err := s.host.launch(ctx, s.file)
	if err != nil {
		return nil, err
	}
	if err := s.host.save(ctx, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// end is the host's own end.
func (s *supervised) end(p *process) {
	if s.host.keeping() {
		p.leave()
		return
	}
	p.stop()
	if s.host.cfg.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.host.cfg.Store.Delete(ctx, storeKey(s.file.name)); err != nil && !errdefs.IsNotFound(err) {
		s.host.cfg.Logger.Warn("cannot forget an ended plugin process", "plugin", s.file.name, "error", err)
	}
}

// serve hands out what the process offers and returns why it can no longer.
func (s *supervised) serve(ctx context.Context, p *process, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts, err := s.host.attach(ctx, s.file.name, p)
	if err != nil {
		return err
	}
	s.set(func(st *PluginStatus) {
		st.Version, st.PID, st.State, st.LastError = p.info.Version, p.pid, StateRunning, nil
		st.Reattached, st.Drivers, st.Devices = p.reattached, names(parts, isDriver), names(parts, isDevice)
	})
	s.host.cfg.Logger.Debug("plugin runs", "plugin", s.file.name, "version", p.info.Version, "pid", p.pid, "reattached", p.reattached)
	// Watched from the start: a plugin may also hang over its config or a recovery.
	watched := make(chan error, 1)
	go func() {
		watched <- s.watch(ctx, p)
		cancel()
	}()
	for _, one := range parts {
		one.open(ctx, s.host.cfg.DriverConfig)
	}
	ready()
	s.noteDigest()
	steady := time.AfterFunc(s.host.cfg.Steady, s.recovered)
	reason := <-watched
	steady.Stop()
	cancel()
	for _, one := range parts {
		one.detach(reason)
	}
	return reason
}

// recovered ends a crash loop: a process has run steadily.
func (s *supervised) recovered() {
	if st := s.snapshot(); st.CrashLoop && st.PID != 0 {
		s.set(func(st *PluginStatus) { st.CrashLoop = st.PID == 0 })
	}
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
			return errdefs.Unavailablef("plugin %s (pid %d): its process ended or closed its connection; see its last log lines", s.file.path, p.pid)
		case <-ticker.C:
		}
		err := p.ping(ctx, cfg.PingTimeout)
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures >= cfg.PingFailures && ctx.Err() == nil {
			return errdefs.Unavailablef("plugin %s (pid %d): is hung, so it is killed: %d pings in a row had no answer: %w", s.file.path, p.pid, failures, err)
		}
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

// waitNotReady returns when the connection is lost: a process that dies is
// noticed by that at once, also one that is not our child.
func waitNotReady(ctx context.Context, conn *grpc.ClientConn) {
	for state := conn.GetState(); state == connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}
