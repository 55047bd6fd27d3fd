// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// ignored lists the features of a task, and of its group, that the driver ignores.
func (b *Body) ignored(g *model.TaskGroup, t *model.Task) []Finding {
	n := &notes{at: Finding{Group: g.Name, Task: t.Name, Driver: b.Driver}}
	n.listed(b.Capabilities.Ignores, g, t)
	c := b.Capabilities
	if !c.MountConfigs {
		for i := range t.VolumeMounts {
			n.addf(fmt.Sprintf("volume_mount[%d]", i), "driver %q cannot mount volumes: the task will not start", b.Driver)
		}
	}
	if !c.SendSignals {
		n.withoutSignals(t)
	}
	if !c.Exec {
		n.withoutExec(g, t)
	}
	if c.DisableLogCollection && ownLogs(t.LogConfig) {
		n.addf("logs", "driver %q keeps no logs of its tasks: the block is ignored", b.Driver)
	}
	return n.findings
}

type notes struct {
	at       Finding
	findings []Finding
}

func (n *notes) addf(path, format string, args ...any) {
	f := n.at
	f.Path, f.Text = path, fmt.Sprintf(format, args...)
	n.findings = append(n.findings, f)
}

// listed handles the features in the driver's Ignores list.
func (n *notes) listed(words []string, g *model.TaskGroup, t *model.Task) {
	r := t.Resources
	if r == nil {
		r = &model.Resources{}
	}
	for _, word := range words {
		set := false
		switch word {
		case "user":
			set = t.User != ""
		case "kill_signal":
			set = t.KillSignal != ""
		case "resources.cores":
			set = r.Cores > 0
		case "resources.memory_max":
			set = r.MemoryMaxMB > 0
		case "resources.device":
			set = len(r.Devices) > 0
		case "network.dns":
			n.resolvers(g)
		case "volume_mount.selinux_label":
			n.labels(t)
		}
		if set {
			n.addf(word, "driver %q does not act on it", n.at.Driver)
		}
	}
}

func (n *notes) labels(t *model.Task) {
	for i, m := range t.VolumeMounts {
		if m.SELinuxLabel != "" {
			n.addf(fmt.Sprintf("volume_mount[%d].selinux_label", i), "driver %q does not label volumes: label the volume on its node where SELinux is in use", n.at.Driver)
		}
	}
}

func (n *notes) resolvers(g *model.TaskGroup) {
	for i, network := range g.Networks {
		if network.DNS != nil {
			n.addf(fmt.Sprintf("network[%d].dns", i), "driver %q does not act on it", n.at.Driver)
			n.ofGroup()
		}
	}
}

// ofGroup marks the last finding as belonging to the group's block.
func (n *notes) ofGroup() {
	last := &n.findings[len(n.findings)-1]
	last.Text = fmt.Sprintf("task %q: %s", last.Task, last.Text)
	last.Task = ""
}

// withoutSignals notes fields that need signals. It says nothing about kill_signal, because a
// driver without SendSignals may still use that signal to stop a task; one that does not
// lists kill_signal in Ignores.
func (n *notes) withoutSignals(t *model.Task) {
	for i, tmpl := range t.Templates {
		if tmpl.ChangeMode == "signal" {
			n.addf(fmt.Sprintf("template[%d].change_mode", i), "driver %q sends no signals: a change of the template cannot be told to the task", n.at.Driver)
		}
	}
}

func (n *notes) withoutExec(g *model.TaskGroup, t *model.Task) {
	for i, tmpl := range t.Templates {
		if tmpl.ChangeMode == "script" {
			n.addf(fmt.Sprintf("template[%d].change_mode", i), "driver %q runs no commands in tasks: the script cannot run", n.at.Driver)
		}
	}
	for i := range t.Actions {
		n.addf(fmt.Sprintf("action[%d]", i), "driver %q runs no commands in tasks: the action cannot run", n.at.Driver)
	}
	n.checks(t.Services, func(*model.Service, *model.ServiceCheck) bool { return true })
	mine := len(n.findings)
	n.checks(g.Services, func(s *model.Service, c *model.ServiceCheck) bool {
		return c.TaskName == t.Name || c.TaskName == "" && s.TaskName == t.Name
	})
	for i := mine; i < len(n.findings); i++ {
		n.findings[i].Task = ""
	}
}

func (n *notes) checks(services []*model.Service, runs func(*model.Service, *model.ServiceCheck) bool) {
	for i, s := range services {
		for j, c := range s.Checks {
			if c.Type == "script" && runs(s, c) {
				n.addf(fmt.Sprintf("service[%d].check[%d]", i, j), "driver %q runs no commands in tasks: the check cannot run", n.at.Driver)
			}
		}
	}
}

// ownLogs reports whether a job changes the defaults of logs.
func ownLogs(l *model.LogConfig) bool {
	return l != nil && *l != (model.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10})
}

// networks finds networks of the group that the driver cannot give to the task: the driver
// must be able to join the group's namespace, or for mode none to isolate the task itself.
// A driver without declared modes is refused for none, because such a task must never get a
// network.
func (b *Body) networks(g *model.TaskGroup, t *model.Task) []Finding {
	n := &notes{at: Finding{Group: g.Name, Task: t.Name, Driver: b.Driver}}
	modes := b.Capabilities.NetworkModes
	joins := slices.Contains(modes, "group")
	for i, network := range g.Networks {
		path := fmt.Sprintf("network[%d].mode", i)
		switch mode := network.Mode; {
		case mode == "" || mode == "host":
		case mode == "none" && !joins && !slices.Contains(modes, "none"):
			n.addf(path, "driver %q cannot keep its tasks off the network: mode \"none\" is not possible with it; use a driver that can, such as exec or docker, or leave it out", b.Driver)
			n.ofGroup()
		case mode != "none" && !joins && len(modes) > 0:
			n.addf(path, "driver %q cannot join a network of mode %q: use mode \"host\", or put the task into a group of its own", b.Driver, mode)
			n.ofGroup()
		}
	}
	return n.findings
}
