// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/feed"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// DeviceFingerprint is what one device plugin found. Problem says why there is
// nothing, or that the plugin is away: its devices are then not offered to new tasks,
// and tasks that have them keep them.
type DeviceFingerprint struct {
	Name          string
	Plugin        string
	PluginVersion string
	Groups        []device.Group
	Problem       string
	// FoundNone: the plugin itself says that there are no devices, so it is not just away.
	FoundNone bool
}

// reserveLimit bounds one Reserve or Release.
const reserveLimit = time.Minute

// Devices holds all device plugins.
type Devices struct {
	kind[*deviceBackend, device.Fingerprint, *deviceSlot]
	cfg Config
}

// deviceBackend is a device plugin of one process.
type deviceBackend struct {
	device.Backend
	breaker *breaker.Breaker
	calls   sync.WaitGroup // reservations and releases in progress
}

// deviceFeed follows the samples of one device plugin while there is a consumer.
type deviceFeed = feed.Feed[[]device.GroupStats, []device.GroupStats]

// deviceSlot is the slot of one device plugin.
type deviceSlot struct {
	plain[*deviceBackend, device.Fingerprint]
	name    string
	backend *deviceBackend // nil while no process serves it
	refused error          // why its devices are not offered
	print   DeviceFingerprint
	feed    *deviceFeed
}

func newDevices(cfg Config) *Devices {
	d := &Devices{cfg: cfg}
	d.kind = newKind(cfg, spec[*deviceBackend, device.Fingerprint, *deviceSlot]{
		noun: "device plugin", contracts: []plugin.Kind{device.KindV1, device.KindNomad},
		connect: d.dial,
		about: func(b *deviceBackend) (string, schema.Schema) {
			info := b.Info()
			return info.Name, info.ConfigSchema
		},
		slot: d.newSlot,
		fingerprint: func(b *deviceBackend, ctx context.Context) (<-chan device.Fingerprint, error) {
			return b.Fingerprint(ctx)
		},
		present: func(f device.Fingerprint) bool { return len(f.Groups) > 0 },
		show: func(into *Served, all []*deviceBackend) {
			for _, b := range all {
				into.Devices = append(into.Devices, b.Backend)
			}
		},
	})
	return d
}

func (d *Devices) dial(ctx context.Context, p *process.Process) (out []*deviceBackend, err error) {
	var all []device.Backend
	if p.Foreign() {
		all, err = device.ConnectNomad(ctx, p.Conn, p.Info.Name)
	} else {
		all, err = device.ConnectV1(ctx, p.Conn)
	}
	for _, b := range all {
		name := fmt.Sprintf("device plugin %q", b.Info().Name)
		out = append(out, &deviceBackend{Backend: b, breaker: breaker.New(name, d.cfg.Limits.Breaker, d.cfg.Answering)})
	}
	return out, err
}

func (d *Devices) newSlot(b *deviceBackend, _ string) *deviceSlot {
	s := &deviceSlot{name: b.Info().Name}
	s.feed = feed.New(feed.Config[[]device.GroupStats, []device.GroupStats]{
		Name: fmt.Sprintf("device plugin %q", s.name), Interval: d.cfg.StatsInterval, Logger: d.log,
		Open: func(ctx context.Context, interval time.Duration) (<-chan []device.GroupStats, error) {
			return d.measure(ctx, s, interval)
		},
		Take: func(_, got []device.GroupStats) []device.GroupStats { return got },
	})
	return s
}

// Fingerprints returns the newest fingerprint of every device plugin, by name, and a
// channel that is closed when they have changed.
func (d *Devices) Fingerprints() ([]DeviceFingerprint, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]DeviceFingerprint, 0, len(d.byName))
	for _, s := range d.slots() {
		p := s.print
		if p.Name == "" {
			continue // a version that is being tried
		}
		if s.refused != nil {
			p.Groups, p.FoundNone, p.Problem = nil, false, s.refused.Error()
		}
		out = append(out, p)
	}
	return out, d.changed
}

// Reserve returns how a task accesses devices of one group. config is the job's own for
// them. NotFound: no plugin has the group now. Unavailable: its plugin is being
// restarted. InvalidArgument: config does not fit the plugin's schema, or the plugin
// takes none.
func (d *Devices) Reserve(ctx context.Context, h device.Holder, s device.Set, config map[string]any) (r *device.Reservation, err error) {
	err = d.call(ctx, "reserve", s, func(ctx context.Context, b *deviceBackend) error {
		if !device.Has(b.Backend, device.FeatureReserveForTask) {
			if len(config) > 0 {
				return errdefs.InvalidArgumentf("device plugin %q takes no config block of a job; remove the block, or install a version of the plugin that announces %q", b.Info().Name, device.FeatureReserveForTask)
			}
			r, err = b.Reserve(ctx, s.IDs)
			return err
		}
		accepts := b.Info().TaskConfigSchema
		full, err := accepts.Apply(config)
		if err != nil {
			return errdefs.InvalidArgumentf("the config of the device does not fit device plugin %q: %w", b.Info().Name, err)
		}
		body, err := json.Marshal(full)
		if err != nil {
			return errdefs.InvalidArgumentf("encode the config of the device: %w", err)
		}
		r, err = b.Backend.(device.TaskReserver).ReserveForTask(ctx, device.Request{Holder: h, IDs: s.IDs, Config: body})
		return err
	})
	return r, err
}

// Release says that a task no longer uses devices, if their plugin wants to know. Its
// errors come from Reserve.
func (d *Devices) Release(ctx context.Context, h device.Holder, s device.Set) error {
	return d.call(ctx, "release", s, func(ctx context.Context, b *deviceBackend) error {
		if !device.Has(b.Backend, device.FeatureRelease) {
			return nil
		}
		return b.Backend.(device.Releaser).Release(ctx, h, s.IDs)
	})
}

// call makes a call about devices of one group to the plugin that has them now.
func (d *Devices) call(ctx context.Context, what string, s device.Set, do func(context.Context, *deviceBackend) error) error {
	b, err := d.holder(s.Vendor, s.Type, s.Name)
	if err != nil {
		return err
	}
	defer b.calls.Done()
	err = b.breaker.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reserveLimit)
		defer cancel()
		return do(ctx, b)
	})
	if err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s %s: %w", what, s.Group(), err))
	}
	return nil
}

// holder returns the device plugin that currently has the group. The call counts as in
// progress until the caller reports its end.
func (d *Devices) holder(vendor, typ, name string) (*deviceBackend, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	away := ""
	for _, s := range d.slots() {
		for _, g := range s.print.Groups {
			if g.Vendor == vendor && g.Type == typ && g.Name == name && s.backend != nil {
				s.backend.calls.Add(1)
				return s.backend, nil
			}
		}
		if s.print.Name != "" && (s.backend == nil || s.print.Problem != "") {
			away = fmt.Sprintf("; device plugin %q: %s", s.print.Name, s.print.Problem)
		}
	}
	if away != "" {
		return nil, errdefs.Unavailablef("no plugin has devices of %s/%s/%s now%s", vendor, typ, name, away)
	}
	return nil, errdefs.NotFoundf("no plugin on this node has devices of %s/%s/%s", vendor, typ, name)
}

// measure opens a stream of the process that serves the device plugin now.
func (d *Devices) measure(ctx context.Context, s *deviceSlot, interval time.Duration) (<-chan []device.GroupStats, error) {
	d.mu.Lock()
	b := s.backend
	d.mu.Unlock()
	if b == nil {
		return nil, errdefs.Unavailablef("device plugin %q: no process serves it now", s.name)
	}
	return b.Stats(ctx, interval)
}

// Stats requests samples of every device plugin and waits briefly for new ones. It
// leaves out outdated samples.
func (d *Devices) Stats(ctx context.Context) []device.GroupStats {
	ctx, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	d.mu.Lock()
	var feeds []*deviceFeed
	for _, s := range d.slots() {
		if s.backend != nil {
			feeds = append(feeds, s.feed)
			s.feed.Want() // all at once; each is waited for below
		}
	}
	d.mu.Unlock()
	var out []device.GroupStats
	for _, f := range feeds {
		if groups, _, err := f.Get(ctx); err == nil {
			out = append(out, groups...)
		}
	}
	slices.SortFunc(out, func(a, b device.GroupStats) int {
		return slices.Compare([]string{a.Vendor, a.Type, a.Name}, []string{b.Vendor, b.Type, b.Name})
	})
	return out
}

func (s *deviceSlot) serves(b *deviceBackend, from origin, problem error) {
	s.print.Name, s.print.Plugin, s.print.PluginVersion = s.name, from.plugin, from.version
	if problem != nil {
		s.print.Groups, s.print.FoundNone, s.print.Problem = nil, false, problem.Error()
		return
	}
	s.backend = b
	s.feed.Retry()
}

func (s *deviceSlot) lost(_ *deviceBackend, reason error) {
	s.backend = nil
	if !quiet(reason) {
		s.print.Groups, s.print.FoundNone, s.print.Problem = nil, false, reason.Error()
	}
}

func (s *deviceSlot) drained(ctx context.Context, b *deviceBackend) error {
	return ended(ctx, &b.calls, "devices are still being reserved or released in the old process")
}

func (s *deviceSlot) take(f device.Fingerprint) {
	s.print.FoundNone = len(f.Groups) == 0
	f = soundDevices(f)
	s.print.Groups, s.print.Problem = f.Groups, f.Problem
}

func (s *deviceSlot) trouble(err error) {
	s.print.Problem = fmt.Sprintf("cannot be fingerprinted: %v", err)
}

func (s *deviceSlot) worse(f device.Fingerprint) error {
	if len(s.print.Groups) > 0 && len(f.Groups) == 0 {
		return errdefs.FailedPreconditionf("the version that runs has devices and the new one finds none: %s", f.Problem)
	}
	return nil
}

func (s *deviceSlot) refuse(reason error) { s.refused = reason }

func (s *deviceSlot) unanswering() (since time.Time, why error) {
	if s.backend == nil {
		return time.Time{}, nil
	}
	return s.backend.breaker.Open()
}

func (s *deviceSlot) release() (kept bool) {
	s.backend = nil
	return false
}

func (s *deviceSlot) close() { s.feed.Close() }
