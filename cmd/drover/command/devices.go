// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func deviceLabel(vendor, typ, name, id string) string {
	return vendor + "/" + typ + "/" + name + "[" + id + "]"
}

// holders returns the tasks that hold devices of a node, by the label of the device.
func (s *session) holders(allocs []*client.AllocDetail) map[string]string {
	out := map[string]string{}
	for _, a := range allocs {
		if a.AllocatedResources == nil || a.ClientTerminalStatus() {
			continue
		}
		for task, r := range a.AllocatedResources.Tasks {
			for _, d := range r.Devices {
				for _, id := range d.DeviceIDs {
					out[deviceLabel(d.Vendor, d.Type, d.Name, id)] = "alloc " + s.id(a.ID) + ", task " + task
				}
			}
		}
	}
	return out
}

func devicesOf(n *model.Node) []*model.NodeDeviceResource {
	if n.NodeResources == nil {
		return nil
	}
	return n.NodeResources.Devices
}

// deviceTable prints the devices of a node or of a plugin: their health with its reason,
// and which task has them. A device that a task has and that no plugin reports now is shown
// as missing.
func (s *session) deviceTable(groups []*model.NodeDeviceResource, held map[string]string) {
	health := healthOf(groups)
	var rows [][]string
	labels := maps.Clone(held)
	for label := range health {
		labels[label] = held[label]
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		h := health[label]
		rows = append(rows, []string{label, h.state(), h.why, labels[label]})
	}
	if len(rows) == 0 {
		return
	}
	s.title("\nDevices")
	s.table([]string{"Device", "Health", "Message", "Held By"}, rows)
	s.differences(groups)
}

// differences prints the properties of single devices: NUMA nodes and attributes.
func (s *session) differences(groups []*model.NodeDeviceResource) {
	var rows [][]string
	for _, g := range groups {
		for _, d := range g.Instances {
			at, known := d.NUMANode()
			if !known && len(d.Attributes) == 0 {
				continue
			}
			numa := ""
			if known {
				numa = strconv.Itoa(at)
			}
			var own []string
			for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
				own = append(own, name+"="+d.Attributes[name].String())
			}
			rows = append(rows, []string{deviceLabel(g.Vendor, g.Type, g.Name, d.ID), numa, strings.Join(own, ", ")})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.title("\nDevices That Differ")
	s.table([]string{"Device", "NUMA Node", "Attributes"}, rows)
}

// deviceHealth is the health of one device; the zero value describes a device that no
// plugin reports.
type deviceHealth struct {
	known, healthy bool
	why            string
}

func (h deviceHealth) state() string {
	switch {
	case !h.known:
		return "missing"
	case h.healthy:
		return "healthy"
	}
	return "unhealthy"
}

func healthOf(groups []*model.NodeDeviceResource) map[string]deviceHealth {
	out := map[string]deviceHealth{}
	for _, g := range groups {
		for _, d := range g.Instances {
			out[deviceLabel(g.Vendor, g.Type, g.Name, d.ID)] = deviceHealth{true, d.Healthy, d.HealthDescription}
		}
	}
	return out
}

// nodeDevices returns the devices of the alloc's node, if a task of the alloc has some.
func (s *session) nodeDevices(ctx context.Context, a *model.Allocation) []*model.NodeDeviceResource {
	if a.AllocatedResources == nil {
		return nil
	}
	for _, r := range a.AllocatedResources.Tasks {
		if len(r.Devices) == 0 {
			continue
		}
		n, _, err := s.client.Node(ctx, a.NodeID, nil)
		if err != nil {
			s.printf("Couldn't retrieve the devices of the node: %s", client.Text(err))
			return nil
		}
		return devicesOf(n)
	}
	return nil
}

// taskDevices prints the devices that a task was given.
func (s *session) taskDevices(given []*model.AllocatedDeviceResource, node []*model.NodeDeviceResource) {
	health := healthOf(node)
	var rows [][]string
	for _, d := range given {
		for _, id := range d.DeviceIDs {
			label := deviceLabel(d.Vendor, d.Type, d.Name, id)
			rows = append(rows, []string{label, health[label].state(), health[label].why})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.printf("Task Devices:")
	s.table([]string{"Device", "Health", "Message"}, rows)
	s.printf("")
}

// deviceGroup holds the measured values of a group of devices.
type deviceGroup struct {
	Vendor, Type, Name string
	InstanceStats      map[string]struct {
		Summary *deviceValue
		Stats   *struct{ Attributes map[string]*deviceValue }
	}
}

type deviceValue struct {
	FloatNumeratorVal, FloatDenominatorVal *float64
	IntNumeratorVal, IntDenominatorVal     *int64
	StringVal                              *string
	BoolVal                                *bool
	Unit                                   string
}

// String formats the value, for example "2 / 11441 MiB".
func (v *deviceValue) String() string {
	if v == nil {
		return "<none>"
	}
	out := ""
	switch {
	case v.IntNumeratorVal != nil:
		out = strconv.FormatInt(*v.IntNumeratorVal, 10)
		if v.IntDenominatorVal != nil {
			out += " / " + strconv.FormatInt(*v.IntDenominatorVal, 10)
		}
	case v.FloatNumeratorVal != nil:
		out = strconv.FormatFloat(*v.FloatNumeratorVal, 'f', -1, 64)
		if v.FloatDenominatorVal != nil {
			out += " / " + strconv.FormatFloat(*v.FloatDenominatorVal, 'f', -1, 64)
		}
	case v.StringVal != nil:
		out = *v.StringVal
	case v.BoolVal != nil:
		out = strconv.FormatBool(*v.BoolVal)
	default:
		return "<none>"
	}
	if v.Unit != "" && v.Unit != "#" {
		out += " " + v.Unit
	}
	return out
}

func (g *deviceGroup) label(id string) string {
	return deviceLabel(g.Vendor, g.Type, g.Name, id)
}

// deviceUse prints the summary of each device, or nothing if there are none.
func (s *session) deviceUse(title string, groups []deviceGroup) {
	var rows [][]string
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			rows = append(rows, []string{g.label(id), g.InstanceStats[id].Summary.String()})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.title("%s", title)
	s.table([]string{"Device", "Summary"}, rows)
}

// deviceValues prints all measured values of each device.
func (s *session) deviceValues(groups []deviceGroup) {
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			pairs := []string{"Device", g.label(id)}
			if all := g.InstanceStats[id].Stats; all != nil {
				for _, name := range slices.Sorted(maps.Keys(all.Attributes)) {
					pairs = append(pairs, name, all.Attributes[name].String())
				}
			}
			s.title("Device Stats")
			s.pairs(pairs...)
			s.printf("")
		}
	}
}
