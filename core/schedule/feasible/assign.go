// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// Default range of dynamic ports.
const (
	DefaultMinDynamicPort = 20000
	DefaultMaxDynamicPort = 32000
)

// Exclusive reports whether allocs of the group use ports, cores or devices, so that
// each needs resources of its own, or volumes, which one alloc may have for itself.
func Exclusive(tg *model.TaskGroup) bool {
	for _, v := range tg.Volumes {
		if v.IsHost() || v.IsCSI() {
			return true
		}
	}
	for _, nw := range tg.Networks {
		if len(nw.ReservedPorts)+len(nw.DynamicPorts) > 0 {
			return true
		}
	}
	for _, t := range tg.Tasks {
		if r := t.Resources; r != nil && (r.Cores > 0 || len(r.Devices) > 0 || len(r.Networks) > 0) {
			return true
		}
	}
	return false
}

// Ask returns the resources that one alloc of the group requests on n, without ports,
// cores and devices. Groups that are not Exclusive share the result on all nodes.
func Ask(tg *model.TaskGroup, n *model.Node, oversubscribe bool) *model.AllocatedResources {
	out := &model.AllocatedResources{
		Tasks:          make(map[string]*model.AllocatedTaskResources, len(tg.Tasks)),
		TaskLifecycles: make(map[string]*model.TaskLifecycleConfig, len(tg.Tasks)),
	}
	if tg.EphemeralDisk != nil {
		out.Shared.DiskMB = int64(tg.EphemeralDisk.SizeMB)
	}
	for _, t := range tg.Tasks {
		r := &model.AllocatedTaskResources{}
		if t.Resources != nil {
			r.Cpu.CpuShares = int64(t.Resources.CPU)
			if t.Resources.Cores > 0 {
				r.Cpu.CpuShares = int64(t.Resources.Cores) * CoreShares(n)
			}
			r.Memory.MemoryMB = int64(t.Resources.MemoryMB)
			if oversubscribe {
				r.Memory.MemoryMaxMB = int64(t.Resources.MemoryMaxMB)
			}
		}
		out.Tasks[t.Name] = r
		out.TaskLifecycles[t.Name] = t.Lifecycle
	}
	for _, nw := range tg.Networks {
		out.Shared.Networks = append(out.Shared.Networks, copyNetwork(nw))
	}
	return out
}

func copyNetwork(nw *model.NetworkResource) *model.NetworkResource {
	c := *nw
	c.ReservedPorts = append([]model.Port(nil), nw.ReservedPorts...)
	c.DynamicPorts = append([]model.Port(nil), nw.DynamicPorts...)
	return &c
}

// CoreShares returns the processor share of one core of n.
func CoreShares(n *model.Node) int64 {
	if n == nil || n.NodeResources == nil || n.NodeResources.Cpu.TotalCpuCores == 0 {
		return 0
	}
	return n.NodeResources.Cpu.CpuShares / int64(n.NodeResources.Cpu.TotalCpuCores)
}

// Assign chooses ports, cores and devices for an alloc of the group on n and marks
// them as used in u. seed (the alloc's id) determines where the search for ports
// begins, so that concurrent plans seldom choose the same. On failure it returns what
// is lacking, and u must not be used again.
func Assign(c *Checker, u *Usage, tg *model.TaskGroup, n *model.Node, seed string, oversubscribe bool) (*model.AllocatedResources, string) {
	res := Ask(tg, n, oversubscribe)
	for _, nw := range res.Shared.Networks {
		if why := assignNetwork(u, n, nw, &res.Shared.Ports, seed); why != "" {
			return nil, why
		}
	}
	together, ok := c.devicesTogether(u, n, tg)
	if !ok {
		return nil, lackDevices
	}
	for _, t := range tg.Tasks {
		if t.Resources == nil {
			continue
		}
		r, asked := res.Tasks[t.Name], t.Resources
		if together != nil {
			rest := *asked
			rest.Devices, asked = nil, &rest
		}
		if why := c.assignExclusive(u, n, asked, r); why != "" {
			return nil, why
		}
		if together != nil {
			r.Devices = together[t.Name]
		}
		for _, nw := range t.Resources.Networks {
			own := copyNetwork(nw)
			if why := assignNetwork(u, n, own, nil, seed+t.Name); why != "" {
				return nil, why
			}
			r.Networks = append(r.Networks, own)
		}
	}
	return res, ""
}

// assignNetwork assigns the ports of nw. If maps is not nil, it receives them as the
// port mapping of a group.
func assignNetwork(u *Usage, n *model.Node, nw *model.NetworkResource, maps *[]model.AllocatedPortMapping, seed string) string {
	for i := range nw.ReservedPorts {
		if why := assignPort(u, n, nw, &nw.ReservedPorts[i], maps, seed); why != "" {
			return why
		}
	}
	for i := range nw.DynamicPorts {
		nw.DynamicPorts[i].Value = 0
		if why := assignPort(u, n, nw, &nw.DynamicPorts[i], maps, seed); why != "" {
			return why
		}
	}
	return ""
}

func assignPort(u *Usage, n *model.Node, nw *model.NetworkResource, p *model.Port, maps *[]model.AllocatedPortMapping, seed string) string {
	name, ok := Resolve(hostNetwork(p.HostNetwork), "", n)
	if !ok || name == "" {
		return "network: " + noHostNetwork(*p)
	}
	p.HostNetwork = name
	ip, ok := Address(n, name)
	if !ok {
		return "network: no address on host network \"" + p.HostNetwork + "\""
	}
	if nw.IP == "" {
		nw.IP = ip
	}
	taken := u.on(ip)
	if p.Value == 0 {
		if p.Value = dynamicPort(taken, n, seed+p.Label); p.Value == 0 {
			return "network: dynamic port selection failed"
		}
	} else if taken.has(p.Value) && !p.IgnoreCollision {
		return collision(p.Label, p.Value)
	}
	taken.set(p.Value)
	if p.To == -1 {
		p.To = p.Value
	}
	if maps != nil {
		*maps = append(*maps, model.AllocatedPortMapping{
			Label: p.Label, Value: p.Value, To: p.To, HostIP: ip, IgnoreCollision: p.IgnoreCollision,
		})
	}
	return ""
}

// dynamicPort returns a free port of the node's dynamic range, or 0.
func dynamicPort(taken *bitmap, n *model.Node, seed string) int {
	lo, hi := DefaultMinDynamicPort, DefaultMaxDynamicPort
	if r := n.NodeResources; r.MinDynamicPort > 0 && r.MaxDynamicPort >= r.MinDynamicPort {
		lo, hi = r.MinDynamicPort, min(r.MaxDynamicPort, 65535)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed))
	size := hi - lo + 1
	start := int(h.Sum32() % uint32(size))
	for i := range size {
		if p := lo + (start+i)%size; !taken.has(p) {
			return p
		}
	}
	return 0
}

// assignExclusive chooses the cores and devices of a task and marks them as used.
func (c *Checker) assignExclusive(u *Usage, n *model.Node, r *model.Resources, got *model.AllocatedTaskResources) string {
	if r.Cores <= 0 && len(r.Devices) == 0 {
		return ""
	}
	choose := func() (*chosen, string) { return c.choose(u, n, r, *got, near{}) }
	if numa(r) != "" {
		choose = func() (*chosen, string) { return c.chooseNear(u, n, r, *got) }
	}
	one, why := choose()
	if why != "" {
		return why
	}
	*got = one.got
	for _, core := range got.Cpu.ReservedCores {
		u.cores[core] = true
	}
	u.take(got.Devices)
	return ""
}

// choose finds free cores and devices for a task and marks nothing. base is what the task
// has besides.
func (c *Checker) choose(u *Usage, n *model.Node, r *model.Resources, base model.AllocatedTaskResources, p near) (*chosen, string) {
	out := &chosen{got: base}
	if out.got.Cpu.ReservedCores = chooseCores(u, n, r.Cores, &p); len(out.got.Cpu.ReservedCores) < r.Cores {
		return nil, "cores"
	}
	var ok bool
	if out.got.Devices, out.score, ok = c.chooseDevices(u, n, r, &p); !ok {
		return nil, lackDevices
	}
	return out, ""
}

// chooseCores returns up to count free cores, the nearest first and else in the order of
// the node, sorted.
func chooseCores(u *Usage, n *model.Node, count int, p *near) []uint16 {
	if count <= 0 {
		return nil
	}
	type core struct {
		id   uint16
		rank int
	}
	var free []core
	for _, id := range n.NodeResources.Cpu.ReservableCpuCores {
		if u.cores[id] {
			continue
		}
		if rank, ok := p.orderCore(id); ok {
			free = append(free, core{id, rank})
		}
	}
	slices.SortStableFunc(free, func(a, b core) int { return cmp.Compare(a.rank, b.rank) })
	var out []uint16
	for _, c := range free[:min(count, len(free))] {
		out = append(out, c.id)
	}
	slices.Sort(out)
	return out
}
