// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// VolumeFingerprint is what one storage plugin can do. Its Problem also says that the plugin
// is away: volumes stay where they are.
type VolumeFingerprint struct {
	Name          string
	Plugin        string
	PluginVersion string
	volume.Fingerprint
}

// volumeLimit bounds one call of a storage plugin, and resting is how long a plugin that
// nobody calls keeps its process.
const (
	volumeLimit   = 10 * time.Minute
	volumeResting = time.Minute
)

// Volumes holds all storage plugins. They need a process only while they are called, except
// instances, whose drivers are watched.
type Volumes struct {
	kind[*volumeBackend, volume.Fingerprint, *volumeSlot]
	cfg Config
}

// volumeBackend is a storage plugin of one process.
type volumeBackend struct {
	volume.Backend
	name     string
	instance bool // of a plugin, for one driver
	breaker  *breaker.Breaker
	calls    sync.WaitGroup // in progress
	// dormant says that it needs a config and has none: it is there for its instances.
	dormant atomic.Bool
}

// volumeSlot is the slot of one storage plugin.
type volumeSlot struct {
	plain[*volumeBackend, volume.Fingerprint]
	kind    *Volumes
	name    string
	plugin  string
	backend *volumeBackend // nil while no process serves it
	dormant bool
	resting bool  // it has no process because nobody called it; one can be started
	refused error // why it brings no volumes to tasks any more
	calls   int   // in progress
	used    time.Time
	print   VolumeFingerprint
}

func newVolumes(cfg Config) *Volumes {
	v := &Volumes{cfg: cfg}
	v.kind = newKind(cfg, spec[*volumeBackend, volume.Fingerprint, *volumeSlot]{
		noun: "storage plugin", contracts: []plugin.Kind{volume.KindV1},
		connect: v.dial,
		about:   func(b *volumeBackend) (string, schema.Schema) { return b.name, b.Info().ConfigSchema },
		check: func(b *volumeBackend) error {
			if b.name == "" {
				return errdefs.FailedPreconditionf("serves a storage plugin without a name; the plugin is defective")
			}
			return nil
		},
		dormant: func(b *volumeBackend, config map[string]any) bool {
			needs := slices.ContainsFunc(b.Info().ConfigSchema.Attributes, func(a schema.Attribute) bool { return a.Required })
			b.dormant.Store(config == nil && needs)
			return b.dormant.Load()
		},
		slot: func(b *volumeBackend, plugin string) *volumeSlot {
			return &volumeSlot{kind: v, name: b.name, plugin: plugin}
		},
		fingerprint: func(b *volumeBackend, ctx context.Context) (<-chan volume.Fingerprint, error) {
			return b.Fingerprint(ctx)
		},
		present: func(volume.Fingerprint) bool { return true },
		show: func(into *Served, all []*volumeBackend) {
			for _, b := range all {
				into.Volumes = append(into.Volumes, b.Backend)
			}
		},
	})
	return v
}

func (v *Volumes) dial(ctx context.Context, p *process.Process) (out []*volumeBackend, err error) {
	all, err := volume.ConnectV1(ctx, p.Conn)
	if of := p.File.Of; of != "" && len(all) != 1 {
		return nil, errdefs.FailedPreconditionf("serves %d storage plugins, and instances are made of those with one", len(all))
	}
	for _, b := range all {
		one := &volumeBackend{Backend: b, name: b.Info().Name}
		if p.File.Of != "" {
			one.name, one.instance = p.File.Serves, true
		}
		one.breaker = breaker.New(fmt.Sprintf("storage plugin %q", one.name), v.cfg.Limits.Breaker, v.cfg.Answering)
		out = append(out, one)
	}
	return out, err
}

// Fingerprints returns the newest fingerprint of every storage plugin, by name, and a channel
// that is closed when they have changed. Those that are there for their instances only are
// left out.
func (v *Volumes) Fingerprints() ([]VolumeFingerprint, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]VolumeFingerprint, 0, len(v.byName))
	for _, s := range v.slots() {
		p := s.print
		if p.Name == "" || s.dormant {
			continue // a version that is being tried
		}
		if s.refused != nil {
			p.Problem = s.refused.Error()
		}
		out = append(out, p)
	}
	return out, v.changed
}

// With calls do with the storage plugin of a name, which is started if it rests. Each call of
// do should have a deadline; all of them together have one. NotFound: no plugin serves the
// name. Unavailable: its plugin is away. Other errors are those of do.
func (v *Volumes) With(ctx context.Context, name string, do func(context.Context, volume.Backend) error) error {
	s, b, err := v.begin(ctx, name)
	if err != nil {
		return err
	}
	defer func() {
		b.calls.Done()
		v.mu.Lock()
		defer v.mu.Unlock()
		s.calls, s.used = s.calls-1, time.Now()
	}()
	return b.breaker.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, volumeLimit)
		defer cancel()
		return do(ctx, b.Backend)
	})
}

// begin returns the process that serves a name. The call counts as in progress.
func (v *Volumes) begin(ctx context.Context, name string) (*volumeSlot, *volumeBackend, error) {
	for {
		v.mu.Lock()
		e := v.byName[name]
		if e == nil || e.slot.print.Name == "" {
			v.mu.Unlock()
			return nil, nil, errdefs.NotFoundf("no plugin on this node serves storage plugin %q", name)
		}
		s, changed := e.slot, v.changed
		if s.backend != nil && !s.dormant {
			s.calls++
			s.backend.calls.Add(1)
			b := s.backend
			v.mu.Unlock()
			return s, b, nil
		}
		dormant, resting, why := s.dormant, s.resting, s.print.Problem
		v.mu.Unlock()
		switch {
		case dormant:
			return nil, nil, errdefs.FailedPreconditionf("storage plugin %q needs a config; give it one in a plugin block of the agent's configuration", name)
		case !resting:
			return nil, nil, errdefs.Unavailablef("storage plugin %q is away: %s", name, why)
		}
		v.cfg.Demand(s.plugin)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, errdefs.Unavailablef("storage plugin %q is being started: %w", name, ctx.Err())
		}
	}
}

func (s *volumeSlot) serves(b *volumeBackend, from origin, problem error) {
	s.print.Name, s.print.Plugin, s.print.PluginVersion = s.name, from.plugin, from.version
	s.backend, s.resting, s.dormant = b, false, b.dormant.Load()
	s.used = time.Now()
	if problem != nil {
		s.print.Problem = problem.Error()
	}
}

func (s *volumeSlot) admit(_ context.Context, b *volumeBackend) error {
	s.kind.update(func() { s.backend, s.resting = b, false })
	return nil
}

func (s *volumeSlot) retire(error) bool {
	s.kind.mu.Lock()
	defer s.kind.mu.Unlock()
	if s.calls > 0 {
		return false
	}
	s.backend, s.resting = nil, true
	return true
}

func (s *volumeSlot) lost(b *volumeBackend, reason error) {
	if s.backend == b {
		s.backend = nil
	}
	s.resting = s.resting || errors.Is(reason, ErrResting)
	if !quiet(reason) {
		s.resting = false
		s.print.Problem = reason.Error()
	}
}

func (s *volumeSlot) drained(ctx context.Context, b *volumeBackend) error {
	return ended(ctx, &b.calls, "volumes are still being worked on in the old process")
}

func (s *volumeSlot) idle(b *volumeBackend, now time.Time, _ time.Duration) (idle, onDemand bool) {
	if s.dormant {
		return true, true
	}
	return !b.instance && s.calls == 0 && now.Sub(s.used) >= volumeResting, true
}

func (s *volumeSlot) take(f volume.Fingerprint) { s.print.Fingerprint = soundVolumes(f) }

func (s *volumeSlot) trouble(err error) {
	s.print.Problem = fmt.Sprintf("cannot be fingerprinted: %v", err)
}

func (s *volumeSlot) worse(f volume.Fingerprint) error {
	if s.print.Problem == "" && f.Problem != "" {
		return errdefs.FailedPreconditionf("the version that runs works and the new one does not: %s", f.Problem)
	}
	return nil
}

func (s *volumeSlot) refuse(reason error) { s.refused = reason }

func (s *volumeSlot) unanswering() (since time.Time, why error) {
	if s.backend == nil {
		return time.Time{}, nil
	}
	return s.backend.breaker.Open()
}

func (s *volumeSlot) release() (kept bool) {
	s.backend = nil
	return false
}

func (s *volumeSlot) close() {}
