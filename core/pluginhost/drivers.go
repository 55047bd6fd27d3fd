// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
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
	TaskConfigSchema  schema.Schema // of a task's config block
}

// configLimit limits SetConfig and the first answers of a plugin.
const configLimit = 30 * time.Second

// drivers holds all drivers that plugins serve.
type drivers struct {
	limits driver.Limits
	nomad  driver.NomadHost
	log    hclog.Logger
	// demand requests a process for a plugin; answering is called when a driver stops
	// answering or answers again.
	works     *works
	demand    func(plugin string)
	answering func()
	// mark is a variable in the environment of plugins and of what they start.
	mark string

	mu      sync.Mutex
	byName  map[string]*entry
	changed chan struct{}
	next    int
}

// entry is the entry of one driver name. The name belongs to the plugin that served it
// first.
type entry struct {
	plugin   string
	proxy    *driver.Proxy
	print    DriverFingerprint
	attached int   // number of attached processes; from the second on it is a restart
	refused  error // why the driver accepts no new tasks
	restarts map[int]func()
}

func newDrivers(limits driver.Limits, nomad driver.NomadHost, log hclog.Logger, demand func(plugin string), answering func()) *drivers {
	return &drivers{
		limits: limits, nomad: nomad, log: log, demand: demand, answering: answering,
		byName: map[string]*entry{}, changed: make(chan struct{}),
	}
}

func (d *drivers) get(name string) driver.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.byName[name]; e != nil && e.attached > 0 {
		return e.proxy
	}
	return nil
}

// unanswering returns why calls to one of the drivers fail at once, nil if all of them
// answer.
func (d *drivers) unanswering(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if e := d.byName[name]; e != nil && e.proxy != nil {
			if since, why := e.proxy.Unanswering(); why != nil {
				return errdefs.Unavailablef("driver %q has not answered since %s, so its calls fail at once: %w", name, since.UTC().Format(time.RFC3339), why)
			}
		}
	}
	return nil
}

func (d *drivers) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.byName {
		if e.proxy != nil {
			e.proxy.Close()
		}
	}
}

func (d *drivers) fingerprints() ([]DriverFingerprint, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []DriverFingerprint
	for _, e := range d.byName {
		if e.attached > 0 {
			p := e.print
			p.Attributes = maps.Clone(p.Attributes)
			if e.refused != nil {
				unhealthy(e.refused)(&p)
			}
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, d.changed
}

func (d *drivers) onRestart(name string, f func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entry(name)
	d.next++
	id := d.next
	e.restarts[id] = f
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(e.restarts, id)
	}
}

// entry returns the entry of a name, making it; d.mu is held.
func (d *drivers) entry(name string) *entry {
	e := d.byName[name]
	if e == nil {
		e = &entry{restarts: map[int]func(){}}
		d.byName[name] = e
	}
	return e
}

// update changes a fingerprint and wakes its waiters.
func (d *drivers) update(name string, change func(*DriverFingerprint)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.byName[name].print)
	close(d.changed)
	d.changed = make(chan struct{})
}

// driverSession holds the drivers of one process.
type driverSession struct {
	drivers  *drivers
	plugin   string
	version  string
	backends []driver.Backend
	trials   []*driverTrial
	presence presence
	watchers sync.WaitGroup
}

// attach asks a process for its drivers and reserves their names.
func (d *drivers) attach(ctx context.Context, pluginName string, p *process.Process) (*driverSession, error) {
	backends, err := d.connect(ctx, p)
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s: %w", p.File.Path, err))
	}
	s := &driverSession{drivers: d, plugin: pluginName, version: p.Info.Version, backends: backends}
	for _, b := range backends {
		if err := d.claim(b.Info(), pluginName, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (d *drivers) connect(ctx context.Context, p *process.Process) ([]driver.Backend, error) {
	if p.Foreign() {
		return driver.ConnectNomad(ctx, p.Conn, p.Info.Name, d.nomad)
	}
	return driver.ConnectV1(ctx, p.Conn)
}

// open configures the drivers, recovers their tasks, admits calls and follows their
// fingerprints until ctx ends.
func (s *driverSession) open(ctx context.Context, configs map[string]map[string]any) {
	for _, b := range s.backends {
		s.drivers.open(ctx, s, b, configOf(configs, b.Info().Name, s.plugin))
	}
}

// claim reserves the driver's name for the plugin.
func (d *drivers) claim(info driver.Info, pluginName string, p *process.Process) error {
	if err := checkDriver(info); err != nil {
		return fmt.Errorf("plugin %s: %w", p.File.Path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entry(info.Name)
	if e.plugin != "" && e.plugin != pluginName {
		return errdefs.AlreadyExistsf("plugin %s: serves driver %q, which plugin %q serves already; remove one of the two", p.File.Path, info.Name, e.plugin)
	}
	e.plugin = pluginName
	if e.proxy == nil {
		e.proxy = driver.NewProxy(info, d.limits, driver.Hooks{
			Demand: func() { d.demand(pluginName) }, Answering: d.answering, EndLeftovers: d.endLeftovers,
		})
	}
	return nil
}

// describe stores a driver's Info. d.mu must be held.
func (e *entry) describe(info driver.Info, version string) {
	p := &e.print
	p.Name, p.Plugin, p.PluginVersion = info.Name, e.plugin, version
	p.Capabilities, p.TaskConfigSchema = info.Capabilities, info.TaskConfigSchema
}

func (d *drivers) open(ctx context.Context, s *driverSession, b driver.Backend, config map[string]any) {
	name := b.Info().Name
	configErr := configureBlock(ctx, name, b.Info().ConfigSchema, config, b.SetConfig)
	e := d.entryOf(name)
	d.mu.Lock()
	e.describe(b.Info(), s.version)
	d.mu.Unlock()
	// Running tasks must be reachable even if the configuration is invalid.
	e.proxy.Attach(ctx, b)
	d.serves(e)
	if configErr != nil {
		d.log.Error("driver cannot be used as it is configured", "driver", name, "error", configErr)
		d.update(name, func(f *DriverFingerprint) {
			f.Attributes, f.Health, f.HealthDescription = nil, driver.HealthUnhealthy, configErr.Error()
		})
		return
	}
	untilFirst(ctx, &s.watchers, func(first func()) { s.follow(ctx, b, nil, first) })
}

// serves records that a process serves the driver, and notifies subscribers if it is
// not the first.
func (d *drivers) serves(e *entry) {
	d.mu.Lock()
	e.attached++
	restarted := e.attached > 1
	calls := slices.Collect(maps.Values(e.restarts))
	d.mu.Unlock()
	if restarted {
		for _, f := range calls {
			go f()
		}
	}
}

// configureBlock passes a block to the plugin after validating it against the plugin's
// schema.
func configureBlock(ctx context.Context, name string, accepts schema.Schema, config map[string]any, set func(context.Context, []byte) error) error {
	full, err := accepts.Apply(config)
	if err != nil {
		return errdefs.InvalidArgumentf("plugin %q: %w; correct its block in the agent's configuration", name, err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		return errdefs.InvalidArgumentf("plugin %q: encode its config: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	if err := set(ctx, body); err != nil {
		return fmt.Errorf("plugin %q: it refuses its config: %w", name, err)
	}
	return nil
}

// follow keeps the driver's fingerprint up to date until ctx ends. It begins with an
// open stream if there is one.
func (s *driverSession) follow(ctx context.Context, b driver.Backend, prints <-chan driver.Fingerprint, first func()) {
	defer first()
	name := b.Info().Name
	r := printReader[driver.Fingerprint]{
		open: b.Fingerprint,
		take: func(f driver.Fingerprint) {
			s.presence.note(name, f.Health != driver.HealthUndetected)
			s.drivers.update(name, printed(f))
			first()
		},
		trouble: func(err error) {
			s.presence.note(name, true) // it has an error to show
			s.drivers.update(name, unhealthy(fmt.Errorf("driver %q: cannot be fingerprinted: %w", name, err)))
			first()
		},
	}
	r.run(ctx, prints)
}

func printed(f driver.Fingerprint) func(*DriverFingerprint) {
	f = sound(f)
	return func(p *DriverFingerprint) {
		p.Attributes, p.Health, p.HealthDescription = f.Attributes, f.Health, f.HealthDescription
	}
}

func unhealthy(reason error) func(*DriverFingerprint) {
	return func(p *DriverFingerprint) {
		p.HealthDescription = reason.Error()
		if p.Health != driver.HealthUndetected { // a failure does not make an absent driver present
			p.Health = driver.HealthUnhealthy
		}
	}
}

func (s *driverSession) names() []string {
	var out []string
	for _, b := range s.backends {
		out = append(out, b.Info().Name)
	}
	return out
}

// detach holds back calls to the drivers; ctx of open must have ended.
func (s *driverSession) detach(reason error) {
	s.watchers.Wait()
	for _, b := range s.backends {
		name := b.Info().Name
		s.drivers.mu.Lock()
		e := s.drivers.byName[name]
		s.drivers.mu.Unlock()
		e.proxy.Detach(reason)
		if !quiet(reason) {
			s.drivers.update(name, unhealthy(reason))
		}
	}
}

// quiet reports whether the end of a process for this reason says nothing new about
// what it serves.
func quiet(reason error) bool {
	return errors.Is(reason, context.Canceled) || errors.Is(reason, errAbsent) || errors.Is(reason, errResting)
}
