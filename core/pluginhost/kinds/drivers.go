// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// DriverFingerprint is the agent's report to servers about one driver.
type DriverFingerprint struct {
	Name              string
	Plugin            string
	PluginVersion     string
	Attributes        map[string]string
	Health            driver.Health
	HealthDescription string
	Capabilities      driver.Capabilities
	Features          []driver.Feature // as the plugin announces them
	TaskConfigSchema  schema.Schema    // schema of a task's config block
}

// Drivers holds all drivers that plugins serve. Their slots are kept when a plugin is
// released: their tasks stay known for the next plugin that serves the name.
type Drivers struct {
	kind[*driverBackend, driver.Fingerprint, *driverSlot]
	cfg      Config
	restarts map[string]map[int]func() // by name; kind.mu
	next     int
	starts   starts
}

// driverBackend is a driver of one process.
type driverBackend struct {
	driver.Backend
	trial *driver.Trial // until it takes over
}

// driverSlot is the slot of one driver.
type driverSlot struct {
	drivers  *Drivers
	name     string
	proxy    *driver.Proxy
	print    DriverFingerprint
	attached int      // number of processes so far; each after the first is a restart
	refused  error    // why the driver accepts no new tasks
	dropped  []string // attributes that it may not set
}

func newDrivers(cfg Config) *Drivers {
	d := &Drivers{cfg: cfg, restarts: map[string]map[int]func(){}}
	d.kind = newKind(cfg, spec[*driverBackend, driver.Fingerprint, *driverSlot]{
		noun: "driver", contracts: []plugin.Kind{driver.KindV1, driver.KindNomad},
		connect: d.dial,
		about: func(b *driverBackend) (string, schema.Schema) {
			info := b.Info()
			return info.Name, info.ConfigSchema
		},
		check: checkDriver,
		slot:  d.newSlot,
		fingerprint: func(b *driverBackend, ctx context.Context) (<-chan driver.Fingerprint, error) {
			return b.Fingerprint(ctx)
		},
		present: func(f driver.Fingerprint) bool { return f.Health != driver.HealthUndetected },
		show: func(into *Served, all []*driverBackend) {
			for _, b := range all {
				into.Drivers = append(into.Drivers, b.Backend)
			}
		},
	})
	return d
}

func (d *Drivers) dial(ctx context.Context, p *process.Process) (out []*driverBackend, err error) {
	var all []driver.Backend
	if p.Foreign() {
		all, err = driver.ConnectNomad(ctx, p.Conn, p.Info.Name, d.cfg.Nomad)
	} else {
		all, err = driver.ConnectV1(ctx, p.Conn)
	}
	for _, b := range all {
		out = append(out, &driverBackend{Backend: b})
	}
	return out, err
}

func (d *Drivers) newSlot(b *driverBackend, _ string) *driverSlot {
	name := b.Info().Name
	return &driverSlot{drivers: d, name: name, proxy: driver.NewProxy(b.Info(), d.cfg.Limits, driver.Hooks{
		Demand: func() { d.cfg.Demand(d.ownerOf(name)) }, Answering: d.cfg.Answering, EndLeftovers: d.endLeftovers,
		Starting: func() func() { return d.starting(d.ownerOf(name)) },
	})}
}

// starting notes that a driver of a plugin starts a task or a command in one, until the
// function that it returns is called. Meanwhile no process that was born since is taken out of
// the plugin's limits.
func (d *Drivers) starting(plugin string) (ended func()) {
	if d.cfg.Started == nil {
		return func() {}
	}
	end := d.starts.begin(plugin, time.Now())
	return func() {
		end()
		// Each process is judged when it has been found: a start that it belongs to has begun.
		d.cfg.Started(plugin, func(pid int) bool { return bornBefore(pid, d.starts.oldest(plugin)) })
	}
}

// ownerOf returns the plugin that has a driver now; a slot can pass to another plugin.
func (d *Drivers) ownerOf(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.byName[name]; e != nil {
		return e.plugin
	}
	return ""
}

// Get returns a driver; nil if no process has served it so far.
func (d *Drivers) Get(name string) driver.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.byName[name]; e != nil && e.slot.attached > 0 {
		return e.slot.proxy
	}
	return nil
}

// Fingerprints returns the newest fingerprint of every driver, by name, and a channel
// that is closed when they have changed.
func (d *Drivers) Fingerprints() ([]DriverFingerprint, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []DriverFingerprint
	for _, s := range d.slots() {
		if s.attached > 0 {
			p := s.print
			p.Attributes = maps.Clone(p.Attributes)
			if s.refused != nil {
				p.unhealthy(s.refused)
			}
			out = append(out, p)
		}
	}
	return out, d.changed
}

// OnRestart calls f, in a goroutine of its own, whenever another process serves the
// driver. The returned function removes f.
func (d *Drivers) OnRestart(name string, f func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	id := d.next
	if d.restarts[name] == nil {
		d.restarts[name] = map[int]func(){}
	}
	d.restarts[name][id] = f
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.restarts[name], id); len(d.restarts[name]) == 0 {
			delete(d.restarts, name)
		}
	}
}

// Tasks returns the number of tasks of a plugin's drivers, except the tasks in but.
func (d *Drivers) Tasks(plugin string, but []string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, e := range d.byName {
		if e.plugin == plugin && !slices.Contains(but, name) {
			n += e.slot.proxy.Tasks()
		}
	}
	return n
}

func (s *driverSlot) try(ready context.Context, b *driverBackend, recovered func()) (err error) {
	b.trial, err = s.proxy.Try(ready, b.Backend, recovered)
	return err
}

func (s *driverSlot) admit(ctx context.Context, b *driverBackend) error {
	if b.trial == nil {
		s.proxy.Attach(ctx, b.Backend)
		return nil
	}
	if err := b.trial.Switch(ctx); err != nil {
		return err
	}
	b.trial = nil
	return nil
}

func (s *driverSlot) serves(b *driverBackend, from origin, problem error) {
	p, info := &s.print, b.Info()
	p.Name, p.Plugin, p.PluginVersion = s.name, from.plugin, from.version
	p.Capabilities, p.TaskConfigSchema, p.Features = info.Capabilities, info.TaskConfigSchema, info.Features
	if problem != nil {
		p.Attributes, p.Health, p.HealthDescription = nil, driver.HealthUnhealthy, problem.Error()
	}
	if s.attached++; s.attached > 1 {
		for _, f := range s.drivers.restarts[s.name] {
			go f()
		}
	}
}

func (s *driverSlot) hold(reason error) { s.proxy.Detach(reason) }

func (s *driverSlot) lost(_ *driverBackend, reason error) {
	if !quiet(reason) {
		s.print.unhealthy(reason)
	}
}

func (s *driverSlot) retire(reason error) bool { return s.proxy.Retire(reason) }

func (s *driverSlot) drained(ctx context.Context, _ *driverBackend) error {
	return s.proxy.Drained(ctx)
}

func (s *driverSlot) idle(b *driverBackend, now time.Time, grace time.Duration) (idle, onDemand bool) {
	used, idle := s.proxy.Idle()
	return idle && now.Sub(used) >= grace, b.Info().Capabilities.OnDemand
}

func (s *driverSlot) take(f driver.Fingerprint) {
	f = sound(f)
	own, dropped := ownAttributes(s.name, f.Attributes)
	if f.Attributes = own; len(dropped) > 0 && !slices.Equal(dropped, s.dropped) {
		s.drivers.log.Warn("a driver sets attributes that are not its own; they are left out", "driver", s.name, "plugin", s.print.Plugin, "attributes", dropped)
	}
	s.dropped = dropped
	s.print.Attributes, s.print.Health, s.print.HealthDescription = f.Attributes, f.Health, f.HealthDescription
}

func (s *driverSlot) trouble(err error) {
	s.print.unhealthy(fmt.Errorf("driver %q: cannot be fingerprinted: %w", s.name, err))
}

func (p *DriverFingerprint) unhealthy(reason error) {
	p.HealthDescription = reason.Error()
	if p.Health != driver.HealthUndetected { // a failure does not make an absent driver present
		p.Health = driver.HealthUnhealthy
	}
}

func (s *driverSlot) worse(f driver.Fingerprint) error {
	if s.print.Health == driver.HealthHealthy && f.Health != driver.HealthHealthy {
		return errdefs.FailedPreconditionf("the version that runs is healthy and the new one is %s: %s", f.Health, f.HealthDescription)
	}
	return nil
}

func (s *driverSlot) refuse(reason error) {
	s.refused = reason
	s.proxy.Refuse(reason)
}

func (s *driverSlot) unanswering() (since time.Time, why error) { return s.proxy.Unanswering() }

func (s *driverSlot) release() (kept bool) {
	s.attached, s.refused, s.dropped, s.print = 0, nil, nil, DriverFingerprint{}
	s.proxy.Refuse(nil)
	return true
}

func (s *driverSlot) close() { s.proxy.Close() }
