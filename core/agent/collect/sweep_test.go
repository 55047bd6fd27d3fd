// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package collect

import (
	"context"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// node is a node with one alloc, a network plugin and a driver that makes namespaces.
type node struct {
	Allocs
	driver.Driver
	driver.Networker

	networks, namespaces []string // of allocs
	away                 bool     // the driver's daemon is
}

func (n *node) OwnsNetwork(id string) bool { return id == "mine" }

func (n *node) DestroyNetwork(_ context.Context, id string, made *driver.NetworkIsolation) error {
	if n.away {
		return errdefs.Unavailablef("the daemon is away")
	}
	n.namespaces = slices.DeleteFunc(n.namespaces, func(one string) bool { return one == id })
	return nil
}

type drivers struct{ *node }

func (d drivers) Driver(name string) (driver.Driver, error) {
	if name != "docker" {
		return nil, errdefs.Internalf("the driver %q must not be asked", name)
	}
	return d.node, nil
}

func (d drivers) Fingerprints() ([]pluginhost.DriverFingerprint, <-chan struct{}) {
	makes := []driver.Feature{driver.FeatureNetworks}
	return []pluginhost.DriverFingerprint{
		{Name: "other", Health: driver.HealthHealthy}, {Name: "not here", Features: makes, Health: driver.HealthUndetected},
		{Name: "docker", Features: makes, Health: driver.HealthUnhealthy},
	}, nil
}

type networks struct{ *node }

func (n networks) ListNetworks(context.Context) (map[string][]string, error) {
	return map[string][]string{"bridge": slices.Clone(n.networks)}, nil
}

func (n networks) SweepNetwork(_ context.Context, _, id string) error {
	n.networks = slices.DeleteFunc(n.networks, func(one string) bool { return one == id })
	return nil
}

func TestANetworkThatNoAllocOwnsGoesWithTheNamespaceOfItsDriver(t *testing.T) {
	n := &node{networks: []string{"mine", "gone"}, namespaces: []string{"mine", "gone"}, away: true}
	c := New(Config{Allocs: n, Drivers: drivers{n}, Networks: networks{n}, Logger: hclog.NewNullLogger()})
	c.sweepNetworks(t.Context())
	if !slices.Equal(n.networks, []string{"mine", "gone"}) {
		t.Fatalf("without its driver, the alloc is forgotten and its namespace is left: %v", n.networks)
	}
	n.away = false
	c.sweepNetworks(t.Context())
	if want := []string{"mine"}; !slices.Equal(n.networks, want) || !slices.Equal(n.namespaces, want) {
		t.Errorf("networks %v and namespaces %v are left", n.networks, n.namespaces)
	}
}

type contract = driver.Driver

// lister is a driver with tasks. Between two lists its task "ends" is destroyed, and its alloc
// is collected.
type lister struct {
	contract
	tasks     []string
	destroyed []string
}

func (l *lister) ListTasks(context.Context) (out []*driver.Handle, err error) {
	for _, id := range l.tasks {
		out = append(out, &driver.Handle{TaskID: id})
	}
	l.tasks = slices.DeleteFunc(l.tasks, func(id string) bool { return id == "ends" })
	return out, nil
}

func (l *lister) DestroyTask(_ context.Context, ref driver.TaskRef, _ bool) error {
	l.destroyed = append(l.destroyed, ref.ID)
	return nil
}

func (l *lister) Driver(string) (driver.Driver, error) { return l, nil }
func (l *lister) Fingerprints() ([]pluginhost.DriverFingerprint, <-chan struct{}) {
	return nil, nil
}

type owner struct{ Allocs }

func (owner) Owned(id string) bool { return id == "mine" }

func TestATaskThatEndedWhileTasksWereListedIsNoGhost(t *testing.T) {
	l := &lister{tasks: []string{"ends", "mine", "ghost"}}
	c := New(Config{Allocs: owner{}, Drivers: l, Logger: hclog.NewNullLogger()})
	c.sweepDriver(t.Context(), "any")
	if want := []string{"ghost"}; !slices.Equal(l.destroyed, want) {
		t.Errorf("destroyed %v, want %v", l.destroyed, want)
	}
}
