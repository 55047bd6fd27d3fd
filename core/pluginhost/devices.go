// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/hashicorp/go-hclog"
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
}

// reserveLimit bounds one Reserve.
const reserveLimit = time.Minute

// devices holds all device plugins.
type devices struct {
	log      hclog.Logger
	breaker  breaker.Config
	interval time.Duration // of measurements
	// answering is called when a device plugin stops answering or answers again.
	answering func()

	mu      sync.Mutex
	byName  map[string]*deviceEntry
	changed chan struct{}
}

// deviceEntry is the entry of one device plugin's name. The name belongs to the plugin
// that served it first.
type deviceEntry struct {
	plugin  string
	backend device.Backend // nil while no process serves it
	session *deviceSession // that of backend
	refused error          // why its devices are not offered
	print   DeviceFingerprint
	feed    *deviceFeed
}

func newDevices(cfg breaker.Config, interval time.Duration, log hclog.Logger, answering func()) *devices {
	return &devices{log: log, breaker: cfg, interval: interval, answering: answering, byName: map[string]*deviceEntry{}, changed: make(chan struct{})}
}

func (d *devices) fingerprints() ([]DeviceFingerprint, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]DeviceFingerprint, 0, len(d.byName))
	for _, e := range d.byName {
		p := e.print
		if p.Name == "" {
			continue // a version that is being tried
		}
		if e.refused != nil {
			p.Groups, p.Problem = nil, e.refused.Error()
		}
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, d.changed
}

// update changes an entry and tells whoever waits.
func (d *devices) update(name string, change func(*deviceEntry)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.byName[name])
	close(d.changed)
	d.changed = make(chan struct{})
}

// deviceSession is the device plugins of one process.
type deviceSession struct {
	devices  *devices
	plugin   string
	version  string
	backends []device.Backend
	trials   []*deviceTrial
	presence presence
	breakers map[string]*breaker.Breaker // by name; another process begins with new ones
	watchers sync.WaitGroup
	calls    sync.WaitGroup // reservations in progress
}

func (d *devices) attach(ctx context.Context, pluginName string, p *process.Process) (*deviceSession, error) {
	backends, err := d.connect(ctx, p)
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s: %w", p.File.Path, err))
	}
	s := &deviceSession{devices: d, plugin: pluginName, version: p.Info.Version, backends: backends, breakers: map[string]*breaker.Breaker{}}
	for _, b := range backends {
		name := b.Info().Name
		if err := d.claim(name, pluginName, p); err != nil {
			return nil, err
		}
		s.breakers[name] = breaker.New(fmt.Sprintf("device plugin %q", name), d.breaker, d.answering)
	}
	return s, nil
}

func (d *devices) connect(ctx context.Context, p *process.Process) ([]device.Backend, error) {
	if p.Foreign() {
		return device.ConnectNomad(ctx, p.Conn, p.Info.Name)
	}
	return device.ConnectV1(ctx, p.Conn)
}

// claim reserves the name for the plugin.
func (d *devices) claim(name, pluginName string, p *process.Process) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.byName[name]
	if e == nil {
		e = &deviceEntry{plugin: pluginName, feed: d.newFeed(name)}
		d.byName[name] = e
	}
	if e.plugin != pluginName {
		return errdefs.AlreadyExistsf("plugin %s: serves the device plugin %q, which plugin %q serves already; remove one of the two", p.File.Path, name, e.plugin)
	}
	return nil
}

// describe sets the entry's name in its fingerprint. The lock must be held.
func (e *deviceEntry) describe(name, version string) {
	e.print.Name, e.print.Plugin, e.print.PluginVersion = name, e.plugin, version
}

func (s *deviceSession) open(ctx context.Context, configs map[string]map[string]any) {
	for _, b := range s.backends {
		name := b.Info().Name
		s.devices.update(name, func(e *deviceEntry) { e.describe(name, s.version) })
		if err := configureBlock(ctx, name, b.Info().ConfigSchema, configOf(configs, name, s.plugin), b.SetConfig); err != nil {
			s.devices.log.Error("device plugin cannot be used as it is configured", "plugin", name, "error", err)
			s.devices.update(name, func(e *deviceEntry) { e.print.Groups, e.print.Problem = nil, err.Error() })
			continue
		}
		s.devices.update(name, func(e *deviceEntry) {
			e.backend, e.session = b, s
			e.feed.Retry()
		})
		untilFirst(ctx, &s.watchers, func(first func()) { s.follow(ctx, b, nil, first) })
	}
}

// follow keeps the fingerprint up to date until ctx ends. It begins with an open
// stream if there is one.
func (s *deviceSession) follow(ctx context.Context, b device.Backend, prints <-chan device.Fingerprint, first func()) {
	defer first()
	name := b.Info().Name
	r := printReader[device.Fingerprint]{
		open: b.Fingerprint,
		take: func(f device.Fingerprint) {
			s.presence.note(name, len(f.Groups) > 0)
			s.devices.update(name, found(f))
			first()
		},
		trouble: func(err error) {
			s.presence.note(name, true) // the fingerprint shows its error
			s.devices.update(name, func(e *deviceEntry) { e.print.Problem = fmt.Sprintf("cannot be fingerprinted: %v", err) })
			first()
		},
	}
	r.run(ctx, prints)
}

func found(f device.Fingerprint) func(*deviceEntry) {
	f = soundDevices(f)
	return func(e *deviceEntry) { e.print.Groups, e.print.Problem = f.Groups, f.Problem }
}

func (s *deviceSession) names() []string {
	var out []string
	for _, b := range s.backends {
		out = append(out, b.Info().Name)
	}
	return out
}

func (s *deviceSession) detach(reason error) {
	s.watchers.Wait()
	for _, b := range s.backends {
		s.devices.update(b.Info().Name, func(e *deviceEntry) {
			e.backend, e.session = nil, nil
			if !quiet(reason) {
				e.print.Groups, e.print.Problem = nil, reason.Error()
			}
		})
	}
}

func (d *devices) reserve(ctx context.Context, vendor, typ, name string, ids []string) (*device.Reservation, error) {
	holder, err := d.holder(vendor, typ, name)
	if err != nil {
		return nil, err
	}
	defer holder.session.calls.Done()
	var r *device.Reservation
	err = holder.session.breakers[holder.print.Name].Do(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, reserveLimit)
		defer cancel()
		r, err = holder.backend.Reserve(ctx, ids)
		return err
	})
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("reserve %s/%s/%s: %w", vendor, typ, name, err))
	}
	return r, nil
}

// unanswering returns why calls to one of the device plugins fail at once, nil if all
// of them answer.
func (d *devices) unanswering(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		e := d.byName[name]
		if e == nil || e.session == nil {
			continue
		}
		if since, why := e.session.breakers[name].Open(); why != nil {
			return errdefs.Unavailablef("device plugin %q has not answered since %s, so its calls fail at once: %w", name, since.UTC().Format(time.RFC3339), why)
		}
	}
	return nil
}

// holder returns the device plugin that currently has the group. The call counts as in
// progress in its session until the caller reports its end.
func (d *devices) holder(vendor, typ, name string) (*deviceEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	away := ""
	for _, e := range d.byName {
		for _, g := range e.print.Groups {
			if g.Vendor == vendor && g.Type == typ && g.Name == name && e.backend != nil {
				e.session.calls.Add(1)
				now := *e
				return &now, nil
			}
		}
		if e.print.Name != "" && (e.backend == nil || e.print.Problem != "") {
			away = fmt.Sprintf("; device plugin %q: %s", e.print.Name, e.print.Problem)
		}
	}
	if away != "" {
		return nil, errdefs.Unavailablef("no plugin has devices of %s/%s/%s now%s", vendor, typ, name, away)
	}
	return nil, errdefs.NotFoundf("no plugin on this node has devices of %s/%s/%s", vendor, typ, name)
}
