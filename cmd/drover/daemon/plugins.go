// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/pluginhost/confine"
)

// pluginLimits are the limits of plugin processes, which the configuration was
// checked for.
func (d *Daemon) pluginLimits() map[string]confine.Limits {
	configured, _ := d.cfg.Client.PluginLimits()
	out := map[string]confine.Limits{}
	for name, l := range configured {
		out[name] = confine.Limits{MemoryMB: l.MemoryMB, Pids: l.Pids}
	}
	return out
}

// pluginArgs are the command lines of plugins' processes.
func (d *Daemon) pluginArgs() map[string][]string {
	out := map[string][]string{}
	for name, p := range d.cfg.Plugins {
		if len(p.Args) > 0 {
			out[name] = p.Args
		}
	}
	return out
}

// taskRules are what the configuration says of all tasks of the node.
func (d *Daemon) taskRules() alloc.Rules {
	c := &d.cfg.Client
	users, drivers := c.DeniedUsers()
	return alloc.Rules{EnvDenylist: c.EnvDenylist(), DeniedUsers: users, CheckedDrivers: drivers}
}
