// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devices

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
)

// SubsystemDevice is the subsystem of node events about devices.
const SubsystemDevice = "Device"

// health is the health of an instance in the newest fingerprints.
type health struct {
	plugin    string
	group, id string
	why       string // why it is not healthy; "" if it is
}

func (h health) key() string { return h.group + "/" + h.id }

// reportHealth adds an event to the node, and to the tasks that use the instance, for each
// change of an instance's health. An instance keeps its last health while its plugin is away.
func (k *Keeper) reportHealth(ctx context.Context, prints []pluginhost.DeviceFingerprint) {
	var changes []health
	k.mu.Lock()
	for _, h := range instances(prints) {
		k.offered[h.group] = h.plugin
	}
	for _, now := range append(instances(prints), k.missing(prints)...) {
		if _, was := k.sick[now.key()]; was != (now.why != "") {
			changes = append(changes, now)
		}
	}
	k.mu.Unlock()
	for _, c := range changes {
		k.report(c)
	}
	if len(changes) == 0 {
		return
	}
	k.mu.Lock()
	for _, c := range changes {
		if c.why == "" {
			delete(k.sick, c.key())
		} else {
			k.sick[c.key()] = c.why
		}
	}
	k.mu.Unlock()
	if err := k.save(ctx); err != nil && ctx.Err() == nil {
		k.cfg.Logger.Warn("a change of the health of devices could not be stored; after a restart of the agent it is reported again", "error", err)
	}
}

func instances(prints []pluginhost.DeviceFingerprint) []health {
	var out []health
	for _, p := range prints {
		for _, g := range p.Groups {
			group := device.Set{Vendor: g.Vendor, Type: g.Type, Name: g.Name}.Group()
			for _, i := range g.Instances {
				h := health{plugin: p.Name, group: group, id: i.ID}
				if !i.Healthy {
					h.why = i.HealthDescription
					if h.why == "" {
						h.why = "its plugin does not say why"
					}
				}
				out = append(out, h)
			}
		}
	}
	return out
}

// missing returns the instances that tasks use and that the plugin of their group no longer
// lists, such as a device that was unplugged. k.mu is locked.
func (k *Keeper) missing(prints []pluginhost.DeviceFingerprint) []health {
	listed := map[string]bool{}
	answers := map[string]bool{} // by plugin: it says which devices there are
	for _, p := range prints {
		answers[p.Name] = p.FoundNone || len(p.Groups) > 0
	}
	for _, h := range instances(prints) {
		listed[h.key()] = true
	}
	var out []health
	for _, u := range k.uses {
		for _, s := range u.Sets {
			plugin := cmp.Or(k.offered[s.Group()], u.Plugins[s.Group()])
			for _, id := range s.IDs {
				h := health{plugin: plugin, group: s.Group(), id: id, why: "its plugin does not list it any more"}
				if answers[plugin] && u.Ended.IsZero() && !listed[h.key()] {
					listed[h.key()] = true // several tasks can use one instance
					out = append(out, h)
				}
			}
		}
	}
	return out
}

// maxReason is the most bytes of a plugin's reason that an event has.
const maxReason = 1024

// report adds the events of one change.
func (k *Keeper) report(c health) {
	kind, text := model.TaskDeviceHealthy, fmt.Sprintf("Device %s of %s is healthy again", c.id, c.group)
	if c.why != "" {
		kind, text = model.TaskDeviceUnhealthy, fmt.Sprintf("Device %s of %s is not healthy: %s", c.id, c.group, model.CutText(c.why, maxReason))
	}
	details := map[string]string{"group": c.group, "device": c.id, "message": text, model.NodeEventPlugin: c.plugin}
	k.cfg.NoteNode(&model.NodeEvent{Subsystem: SubsystemDevice, Timestamp: k.cfg.Now().UTC(), Message: text, Details: details})
	for _, h := range k.holders(c.group, c.id) {
		k.cfg.NoteTask(h.AllocID, h.Task, model.TaskEvent{Type: kind, Message: text, DisplayMessage: text, Details: details})
	}
}

// holders returns the tasks that use an instance.
func (k *Keeper) holders(group, id string) []device.Holder {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []device.Holder
	for _, u := range k.uses {
		for _, s := range u.Sets {
			if u.Ended.IsZero() && s.Group() == group && slices.Contains(s.IDs, id) {
				out = append(out, u.Holder)
			}
		}
	}
	return out
}
