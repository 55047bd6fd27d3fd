// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"hash/fnv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Default range of dynamic ports.
const (
	DefaultMinDynamicPort = 20000
	DefaultMaxDynamicPort = 32000
)

// Exclusive reports whether allocs of the group use ports, cores or devices, so that
// each needs resources of its own.
func Exclusive(tg *model.TaskGroup) bool {
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
	for _, t := range tg.Tasks {
		if t.Resources == nil {
			continue
		}
		r := res.Tasks[t.Name]
		if why := assignCores(u, n, t.Resources.Cores, &r.Cpu); why != "" {
			return nil, why
		}
		for _, ask := range t.Resources.Devices {
			d, why := c.assignDevice(u, n, ask)
			if why != "" {
				return nil, why
			}
			r.Devices = append(r.Devices, d)
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
	p.HostNetwork = hostNetwork(p.HostNetwork)
	ip, ok := Address(n, p.HostNetwork)
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

func assignCores(u *Usage, n *model.Node, count int, cpu *model.AllocatedCpuResources) string {
	if count <= 0 {
		return ""
	}
	for _, core := range n.NodeResources.Cpu.ReservableCpuCores {
		if len(cpu.ReservedCores) < count && !u.cores[core] {
			u.cores[core] = true
			cpu.ReservedCores = append(cpu.ReservedCores, core)
		}
	}
	if len(cpu.ReservedCores) < count {
		return "cores"
	}
	return ""
}

func (c *Checker) assignDevice(u *Usage, n *model.Node, ask *model.RequestedDevice) (*model.AllocatedDeviceResource, string) {
	var best *model.AllocatedDeviceResource
	bestScore := 0.0
	for _, d := range n.NodeResources.Devices {
		traits := model.DeviceTraits{Vendor: d.Vendor, Type: d.Type, Name: d.Name, Attributes: d.Attributes}
		if !c.deviceMatches(ask, &traits) {
			continue
		}
		got := &model.AllocatedDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name}
		for _, i := range d.Instances {
			if i.Healthy && uint64(len(got.DeviceIDs)) < ask.Count && !u.devices[d.Vendor+"/"+d.Type+"/"+d.Name+"/"+i.ID] {
				got.DeviceIDs = append(got.DeviceIDs, i.ID)
			}
		}
		if uint64(len(got.DeviceIDs)) < ask.Count {
			continue
		}
		if s := c.deviceScore(ask, &traits); best == nil || s > bestScore {
			best, bestScore = got, s
		}
	}
	if best == nil {
		return nil, "devices: no devices match request"
	}
	for _, id := range best.DeviceIDs {
		u.devices[best.Vendor+"/"+best.Type+"/"+best.Name+"/"+id] = true
	}
	return best, ""
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
