// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/pluginhost/confine"
)

// pluginLimits returns the resource limits of plugin processes. The configuration
// has validated them.
func (d *Daemon) pluginLimits() map[string]confine.Limits {
	configured, _ := d.cfg().Client.PluginLimits()
	out := map[string]confine.Limits{}
	for name, l := range configured {
		out[name] = confine.Limits{MemoryMB: l.MemoryMB, Pids: l.Pids}
	}
	return out
}

// pluginAccess returns the configured rights of plugins.
func (d *Daemon) pluginAccess() map[string]confine.Access {
	out := map[string]confine.Access{}
	for name, p := range d.cfg().Plugins {
		out[name] = p.Access
	}
	return out
}

// pluginArgs returns the arguments of plugin processes.
func (d *Daemon) pluginArgs() map[string][]string {
	out := map[string][]string{}
	for name, p := range d.cfg().Plugins {
		if len(p.Args) > 0 {
			out[name] = p.Args
		}
	}
	return out
}

// taskRules returns the settings that apply to all tasks of the node.
func (d *Daemon) taskRules() alloc.Rules {
	c := &d.cfg().Client
	users, drivers := c.DeniedUsers()
	allowed, denied := c.Drivers()
	return alloc.Rules{EnvDenylist: c.EnvDenylist(), DeniedUsers: users, CheckedDrivers: drivers, AllowedDrivers: allowed, DeniedDrivers: denied}
}
