// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
)

func deviceKey(vendor, typ, name, id string) string {
	return vendor + "/" + typ + "/" + name + "/" + id
}

// maxDeviceTries is how many choices for the requests of a task or group are tried on a node.
const maxDeviceTries = 256

// chooseDevices meets requests for devices, each from one group of devices, and
// returns what they get, in their order, and how well it matches. It reports false if they
// cannot be met together.
func (c *Checker) chooseDevices(u *Usage, n *model.Node, r *model.Resources, p *near) ([]*model.AllocatedDeviceResource, float64, bool) {
	if len(r.Devices) == 0 {
		return nil, 0, true
	}
	order := make([]int, len(r.Devices))
	for i := range order {
		order[i] = i
	}
	m := &deviceMeeting{c: c, u: u, n: n, r: r, p: p, taken: map[string]bool{}, got: make([]*model.AllocatedDeviceResource, len(order))}
	if m.meet(order) {
		return m.got, m.score, true
	}
	if len(order) == 1 {
		return nil, 0, false
	}
	// A request may have taken an instance that only a later one needs: those that have the
	// least choice go first.
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(c.DevicesFree(u, n, r.Devices[a]), c.DevicesFree(u, n, r.Devices[b]))
	})
	m.tries = 0
	ok := m.meet(order)
	return m.got, m.score, ok
}

// lackDevices is what is lacking on a node whose devices cannot meet the requests.
const lackDevices = "devices: no devices match request"

// devicesTogether chooses the devices of all tasks of a group at once, by task, and marks them as
// used: one task could take a device that only another one can use. It returns nil if there is
// nothing to choose together: fewer than two tasks ask for devices, or one of them asks for some
// that are near its cores, which are chosen with these. It reports false if the requests cannot
// be met.
func (c *Checker) devicesTogether(u *Usage, n *model.Node, tg *model.TaskGroup) (map[string][]*model.AllocatedDeviceResource, bool) {
	asking := 0
	for _, t := range tg.Tasks {
		if t.Resources == nil || len(t.Resources.Devices) == 0 {
			continue
		}
		if asking++; numa(t.Resources) != "" {
			return nil, true
		}
	}
	if asking < 2 {
		return nil, true
	}
	all, tasks := &model.Resources{}, make([]*model.Task, 0, asking)
	for _, t := range tg.Tasks {
		if t.Resources != nil && len(t.Resources.Devices) > 0 {
			all.Devices, tasks = append(all.Devices, t.Resources.Devices...), append(tasks, t)
		}
	}
	got, _, ok := c.chooseDevices(u, n, all, &near{})
	if !ok {
		return nil, false
	}
	u.take(got)
	out := make(map[string][]*model.AllocatedDeviceResource, len(tasks))
	for _, t := range tasks {
		asked := len(t.Resources.Devices)
		out[t.Name], got = got[:asked:asked], got[asked:]
	}
	return out, true
}

// take marks devices as used.
func (u *Usage) take(devices []*model.AllocatedDeviceResource) {
	for _, d := range devices {
		for _, id := range d.DeviceIDs {
			u.devices[deviceKey(d.Vendor, d.Type, d.Name, id)] = true
		}
	}
}

// deviceMeeting is the search for devices that meet all requests of a task or group.
type deviceMeeting struct {
	c     *Checker
	u     *Usage
	n     *model.Node
	r     *model.Resources
	p     *near
	taken map[string]bool // keys of instances
	got   []*model.AllocatedDeviceResource
	score float64
	tries int
}

// meet meets the requests at the given positions, the best choice for the first of them first.
func (m *deviceMeeting) meet(order []int) bool {
	if len(order) == 0 {
		return true
	}
	ask, at := m.r.Devices[order[0]], near{}
	if m.r.NUMA != nil && slices.Contains(m.r.NUMA.Devices, ask.Name) {
		at = *m.p
	}
	for _, choice := range m.c.deviceChoices(m.u, m.taken, m.n, ask, &at) {
		if m.tries++; m.tries > maxDeviceTries {
			return false
		}
		m.mark(choice.got, true)
		m.got[order[0]] = choice.got
		if m.meet(order[1:]) {
			m.score += choice.score
			return true
		}
		m.mark(choice.got, false)
	}
	return false
}

func (m *deviceMeeting) mark(d *model.AllocatedDeviceResource, taken bool) {
	for _, id := range d.DeviceIDs {
		m.taken[deviceKey(d.Vendor, d.Type, d.Name, id)] = taken
	}
}

// deviceChoice is what a request may get of one group of devices, and how well it matches.
type deviceChoice struct {
	got   *model.AllocatedDeviceResource
	score float64
	rank  int
}

// deviceChoices returns for each group that has enough free instances for ask those that match
// best. The best group comes first: the nearest, then the one that matches more affinities, then
// in the order of the node.
func (c *Checker) deviceChoices(u *Usage, taken map[string]bool, n *model.Node, ask *model.RequestedDevice, p *near) (out []deviceChoice) {
	for _, g := range n.NodeResources.Devices {
		if choice, ok := c.ofGroup(u, taken, g, ask, p); ok {
			out = append(out, choice)
		}
	}
	slices.SortStableFunc(out, func(a, b deviceChoice) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.score, a.score))
	})
	return out
}

// ofGroup returns the free instances of a group that match ask best: the nearest first, then
// those that match more affinities, then in the order of the group. It reports false if there
// are not enough.
func (c *Checker) ofGroup(u *Usage, taken map[string]bool, g *model.NodeDeviceResource, ask *model.RequestedDevice, p *near) (deviceChoice, bool) {
	type instance struct {
		id    string
		rank  int
		score float64
	}
	var free []instance
	for _, s := range g.Alike() {
		traits := model.DeviceTraits{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: s.Attributes}
		if !c.deviceMatches(ask, &traits) {
			continue
		}
		score := c.deviceScore(ask, &traits)
		for _, i := range s.Instances {
			if rank, ok := p.orderDevice(i); ok && u.free(g, i) && !taken[deviceKey(g.Vendor, g.Type, g.Name, i.ID)] {
				free = append(free, instance{i.ID, rank, score})
			}
		}
	}
	if uint64(len(free)) < ask.Count {
		return deviceChoice{}, false
	}
	place := make(map[string]int, len(g.Instances))
	for at, i := range g.Instances {
		place[i.ID] = at
	}
	slices.SortFunc(free, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.score, a.score), cmp.Compare(place[a.id], place[b.id]))
	})
	out := deviceChoice{got: &model.AllocatedDeviceResource{Vendor: g.Vendor, Type: g.Type, Name: g.Name}}
	for _, i := range free[:ask.Count] {
		out.got.DeviceIDs = append(out.got.DeviceIDs, i.id)
		out.score += i.score
		out.rank += i.rank
	}
	if ask.Count > 0 {
		out.score /= float64(ask.Count)
	}
	return out, true
}

// instances returns how many healthy instances match ask on a node.
func (c *Checker) instances(ask *model.RequestedDevice, t *model.NodeTraits) uint64 {
	n := uint64(0)
	for i := range t.Devices {
		if c.deviceMatches(ask, &t.Devices[i]) {
			n += t.Devices[i].Healthy
		}
	}
	return n
}

// free reports whether a new alloc can get an instance of a group of devices.
func (u *Usage) free(g *model.NodeDeviceResource, i *model.NodeDevice) bool {
	return i.Healthy && !u.devices[deviceKey(g.Vendor, g.Type, g.Name, i.ID)]
}

// DevicesFree returns how many healthy instances that a request accepts are free on a node,
// in the group of devices that has the most of them: a request is met from one group.
func (c *Checker) DevicesFree(u *Usage, n *model.Node, ask *model.RequestedDevice) (most int64) {
	for _, g := range n.NodeResources.Devices {
		free := int64(0)
		for _, s := range g.Alike() {
			traits := model.DeviceTraits{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: s.Attributes}
			if !c.deviceMatches(ask, &traits) {
				continue
			}
			for _, i := range s.Instances {
				if u.free(g, i) {
					free++
				}
			}
		}
		most = max(most, free)
	}
	return most
}

func (c *Checker) deviceMatches(ask *model.RequestedDevice, d *model.DeviceTraits) bool {
	name := strings.SplitN(ask.Name, "/", 3)
	switch len(name) {
	case 1:
		if name[0] != d.Type {
			return false
		}
	case 2:
		if name[0] != d.Vendor || name[1] != d.Type {
			return false
		}
	default:
		if name[0] != d.Vendor || name[1] != d.Type || name[2] != d.Name {
			return false
		}
	}
	for _, k := range ask.Constraints {
		l, lok := deviceValue(k.LTarget, d)
		r, rok := deviceValue(k.RTarget, d)
		if !c.matchDevice(k.Operand, l, r, lok, rok) {
			return false
		}
	}
	return true
}

func (c *Checker) deviceScore(ask *model.RequestedDevice, d *model.DeviceTraits) float64 {
	sum := 0.0
	for _, a := range ask.Affinities {
		l, lok := deviceValue(a.LTarget, d)
		r, rok := deviceValue(a.RTarget, d)
		if c.matchDevice(a.Operand, l, r, lok, rok) {
			sum += float64(a.Weight)
		}
	}
	return sum
}

func deviceValue(target string, d *model.DeviceTraits) (string, bool) {
	switch target {
	case "${device.vendor}":
		return d.Vendor, true
	case "${device.type}":
		return d.Type, true
	case "${device.model}":
		return d.Name, true
	}
	if k, ok := strings.CutPrefix(target, "${device.attr."); ok {
		a, found := d.Attributes[strings.TrimSuffix(k, "}")]
		return a.String(), found
	}
	return target, !strings.HasPrefix(target, "${")
}
