// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Config configures a Set; all of it except Owner is required.
type Config struct {
	Logger        hclog.Logger
	Limits        driver.Limits       // limits of drivers' calls; devices use only the breaker
	Nomad         driver.NomadHost    // services for drivers built for Nomad
	StatsInterval time.Duration       // at which samples are taken while there is a consumer
	Tasks         func() []stats.Task // returns the running tasks for collectors that measure them; may be nil
	Demand        func(plugin string) // requests a process for a plugin without one
	Answering     func()              // a name stopped answering, or answers again
	Recovered     func(plugin string) // a process on trial has recovered one more task
	// Owner returns the plugin that served a name last, before this run of the agent or in
	// it, if the agent still has the plugin and it is not disabled; else "". The name is an
	// id of Parts.IDs. A nil Owner means that the host knows no earlier owners.
	Owner func(id string) string
	// Started is called after a driver of the plugin has started a task, or has failed to; it
	// may be nil. A process of which settled is false may belong to another start that is
	// under way.
	Started func(plugin string, settled func(pid int) bool)
	// Mark is a variable in the environment of plugins and of their child processes: see
	// process.Launcher.
	Mark string

	turns *turns // turns of plugins in claiming names of any kind
}

// Set holds what the plugins of one host serve.
type Set struct {
	Drivers    *Drivers
	Devices    *Devices
	Collectors *Collectors
	Networks   *Networks
	Volumes    *Volumes
	Registries *Registries

	log   hclog.Logger
	all   []anyKind
	owner func(id string) string
	turns *turns
}

// anyKind is a kind, whatever its types.
type anyKind interface {
	contractsOf() []plugin.Kind
	attach(ctx context.Context, p *process.Process) (Part, error)
	inspect(ctx context.Context, p *process.Process, into *Served) error
	release(plugin string, keep []string)
	refuse(plugin string, reason error)
	unclaimed(plugin string) (why []error, unserved []string)
	id(name string) string
	close()
}

// New returns a set without plugins.
func New(cfg Config) *Set {
	cfg.turns = newTurns()
	if cfg.Owner == nil {
		cfg.Owner = func(string) string { return "" }
	}
	s := &Set{
		log: cfg.Logger, owner: cfg.Owner, turns: cfg.turns,
		Drivers: newDrivers(cfg), Devices: newDevices(cfg), Collectors: newCollectors(cfg), Networks: newNetworks(cfg), Volumes: newVolumes(cfg), Registries: newRegistries(cfg),
	}
	s.all = []anyKind{&s.Drivers.kind, &s.Devices.kind, &s.Collectors.kind, &s.Networks.kind, &s.Volumes.kind, &s.Registries.kind}
	return s
}

// Features are the optional abilities on which this host acts, as "KIND.FEATURE".
func Features() []string {
	var out []string
	for _, f := range driver.KnownFeatures() {
		out = append(out, driver.KindV1.Name+"."+string(f))
	}
	for _, f := range device.KnownFeatures() {
		out = append(out, device.KindV1.Name+"."+string(f))
	}
	for _, f := range stats.KnownFeatures() {
		out = append(out, stats.KindV1.Name+"."+string(f))
	}
	for _, f := range network.KnownFeatures() {
		out = append(out, network.KindV1.Name+"."+string(f))
	}
	for _, f := range registry.KnownFeatures() {
		out = append(out, registry.KindV1.Name+"."+string(f))
	}
	for _, f := range volume.KnownFeatures() {
		out = append(out, volume.KindV1.Name+"."+string(f))
	}
	return out
}

// contracts returns the contracts that this host supports.
func (s *Set) contracts() []plugin.Kind {
	var out []plugin.Kind
	for _, k := range s.all {
		out = append(out, k.contractsOf()...)
	}
	return out
}

// use calls f with each kind that a process serves and that this host supports.
func (s *Set) use(p *process.Process, warn bool, f func(contract plugin.Kind, k anyKind) error) error {
	chosen, mismatches, err := choose(p.Info.Kinds, s.contracts())
	if err != nil {
		return err
	}
	for _, m := range mismatches {
		if warn {
			s.log.Warn("a part of the plugin cannot be used", "plugin", p.File.Name, "reason", m)
		}
	}
	for _, contract := range chosen {
		i := slices.IndexFunc(s.all, func(k anyKind) bool { return slices.Contains(k.contractsOf(), contract) })
		if err := f(contract, s.all[i]); err != nil {
			return err
		}
	}
	return nil
}

// Attach asks a process for everything that it serves and reserves the names for its
// plugin, except for names that it may not have: see Warnings. It returns an error if no
// name is left.
func (s *Set) Attach(ctx context.Context, p *process.Process) (Parts, error) {
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	defer s.turns.settle(p.File.Name)
	var parts Parts
	err := s.use(p, true, func(_ plugin.Kind, k anyKind) error {
		one, err := k.attach(ctx, p)
		if err == nil {
			parts = append(parts, one)
		}
		return err
	})
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s: %w", p.File.Path, err))
	}
	if len(parts.Names()) == 0 {
		if err := s.refusals(p.File.Name); err != nil {
			return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s: %w", p.File.Path, err))
		}
	}
	return parts, nil
}

// Served lists everything that one process serves, for callers that inspect a plugin.
type Served struct {
	Drivers    []driver.Backend
	Devices    []device.Backend
	Collectors []stats.Backend // collectors of the machine's statistics
	Networks   []network.Backend
	Volumes    []volume.Backend
	Registries []registry.Backend
}

// Inspect asks a process for all that it serves. It reserves no name.
func (s *Set) Inspect(ctx context.Context, p *process.Process) (out Served, err error) {
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	err = s.use(p, false, func(contract plugin.Kind, k anyKind) error {
		if err := k.inspect(ctx, p, &out); err != nil {
			return fmt.Errorf("ask what it serves as %s: %w", contract, err)
		}
		return nil
	})
	return out, err
}

// Release frees the names of a plugin that are not in keep, so that other plugins can
// serve them.
func (s *Set) Release(plugin string, keep []string) {
	for _, k := range s.all {
		k.release(plugin, keep)
	}
}

// Refuse makes a plugin accept no new tasks because of reason; nil allows them again.
func (s *Set) Refuse(plugin string, reason error) {
	for _, k := range s.all {
		k.refuse(plugin, reason)
	}
}

// Unanswering returns why calls to one of the names fail at once; nil if all answer.
func (s *Set) Unanswering(n Names) error {
	return cmp.Or(s.Drivers.unanswering(n.Drivers), s.Devices.unanswering(n.Devices), s.Collectors.unanswering(n.Collectors), s.Networks.unanswering(n.Networks), s.Volumes.unanswering(n.Volumes), s.Registries.unanswering(n.Registries))
}

// Close ends all calls and streams. Tasks keep running.
func (s *Set) Close() {
	for _, k := range s.all {
		k.close()
	}
}
