// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package collect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// sweepEvery is the interval at which the agent asks drivers for tasks without an
	// alloc, and sweepPause the least time between two rounds when drivers appear and
	// disappear.
	sweepEvery = 30 * time.Second
	sweepPause = time.Second
	// sweepLimit bounds the time for one driver.
	sweepLimit = 2 * time.Minute
)

// Until ctx ends, Sweep ends tasks in drivers and in cgroups of this agent that belong to
// no alloc, and removes networks that belong to no alloc. A start that was interrupted, by
// a kill of the plugin, the supervisor or this agent, can leave one, and so can an agent
// that has lost its state.
func (c *Collector) Sweep(ctx context.Context) {
	for ctx.Err() == nil {
		prints, changed := c.cfg.Drivers.Fingerprints()
		for _, p := range prints {
			c.sweepDriver(ctx, p.Name)
		}
		c.sweepNetworks(ctx)
		c.sweepCgroups(ctx)
		_ = sleep.For(ctx, sweepPause)
		timer := time.NewTimer(sweepEvery)
		select {
		case <-ctx.Done():
		case <-changed: // a process may have come
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *Collector) sweepDriver(ctx context.Context, name string) {
	d, err := c.cfg.Drivers.Driver(name)
	if err != nil {
		return // it is asked when it is there
	}
	l, ok := d.(driver.Lister)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	ghosts, err := c.ghosts(ctx, l)
	if err != nil {
		if !errdefs.IsUnimplemented(err) && !errdefs.IsUnavailable(err) {
			c.cfg.Logger.Warn("a driver could not list its tasks", "driver", name, "error", err)
		}
		return
	}
	for _, id := range ghosts {
		c.cfg.Logger.Warn("a driver has a task that no allocation owns; it is ended", "driver", name, "task_id", id)
		if err := d.DestroyTask(ctx, driver.TaskRef{ID: id}, true); err != nil {
			c.cfg.Logger.Warn("a task that no allocation owns cannot be ended yet; it is tried again", "driver", name, "task_id", id, "error", err)
		}
	}
}

// ghosts returns the tasks of a driver that no alloc owns. An owner is looked up after the
// tasks were listed, because a run has an owner before it has a task. They are listed again
// after that, because a task may have ended and been collected in between.
func (c *Collector) ghosts(ctx context.Context, l driver.Lister) (ids []string, err error) {
	list, err := l.ListTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		if !c.cfg.Allocs.Owned(h.TaskID) {
			ids = append(ids, h.TaskID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if list, err = l.ListTasks(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		return !slices.ContainsFunc(list, func(h *driver.Handle) bool { return h.TaskID == id })
	}), nil
}

func (c *Collector) sweepCgroups(ctx context.Context) {
	if c.cfg.Cgroups == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	gone, err := c.cfg.Cgroups.Sweep(ctx, c.cfg.Allocs.OwnsCgroup)
	for _, name := range gone {
		c.cfg.Logger.Warn("a cgroup of a task that no allocation owns was left by an earlier agent; it was removed with its processes", "task", name)
	}
	if err != nil {
		c.cfg.Logger.Warn("a cgroup that no allocation owns cannot be removed yet; it is tried again", "error", err)
	}
}

// sweepNetworks removes networks that no alloc owns: networks of an agent that has lost its
// state, and the network of a call that was given up because its alloc was stopped and that
// the plugin went on with after the network was destroyed.
func (c *Collector) sweepNetworks(ctx context.Context) {
	if c.cfg.Networks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	left, err := c.cfg.Networks.ListNetworks(ctx)
	if err != nil && !errdefs.IsUnavailable(err) {
		c.cfg.Logger.Warn("a network plugin could not list its networks", "error", err)
	}
	for plugin, ids := range left { // ask for owners only after listing, so that a new network is not taken for an orphan
		for _, id := range ids {
			if c.cfg.Allocs.OwnsNetwork(id) {
				continue
			}
			c.cfg.Logger.Warn("a network plugin has a network that no allocation owns; it is removed", "plugin", plugin, "alloc_id", id)
			err := c.sweepNamespace(ctx, id) // the namespace first: the network plugin still names its alloc if that fails
			if err == nil {
				err = c.cfg.Networks.SweepNetwork(ctx, plugin, id)
			}
			if err != nil {
				c.cfg.Logger.Warn("a network that no allocation owns cannot be removed yet; it is tried again", "plugin", plugin, "alloc_id", id, "error", err)
			}
		}
	}
}

// sweepNamespace removes the namespace that a driver may have made for an alloc. A driver
// that is not usable on this node has made none.
func (c *Collector) sweepNamespace(ctx context.Context, allocID string) error {
	prints, _ := c.cfg.Drivers.Fingerprints()
	for _, p := range prints {
		if !slices.Contains(p.Features, driver.FeatureNetworks) || p.Health == driver.HealthUndetected {
			continue
		}
		d, err := c.cfg.Drivers.Driver(p.Name)
		if err != nil {
			return err
		}
		n, ok := d.(driver.Networker)
		if !ok {
			continue
		}
		if err := n.DestroyNetwork(ctx, allocID, nil); err != nil {
			return fmt.Errorf("have the driver %q remove the namespace: %w", p.Name, err)
		}
	}
	return nil
}
