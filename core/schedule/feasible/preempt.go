// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"slices"

	"github.com/drover-project/drover/core/model"
)

// CoresAsked returns how many whole cores one alloc of the group requests.
func CoresAsked(tg *model.TaskGroup) (n int64) {
	for _, t := range tg.Tasks {
		if t.Resources != nil {
			n += int64(max(t.Resources.Cores, 0))
		}
	}
	return n
}

// ReservableCores returns how many cores of n tasks may have for themselves.
func ReservableCores(n *model.Node) (count int64) {
	if n.NodeResources == nil {
		return 0
	}
	for _, id := range n.NodeResources.Cpu.ReservableCpuCores {
		if n.ReservedResources == nil || !slices.Contains(n.ReservedResources.Cpu.ReservedCpuCores, id) {
			count++
		}
	}
	return count
}

// HoldsStaticPort reports whether an alloc on n holds a port that the group requests by
// its number.
func HoldsStaticPort(n *model.Node, tg *model.TaskGroup, a *model.Allocation) bool {
	holds := func(nw *model.NetworkResource) bool {
		for _, p := range nw.ReservedPorts {
			name, _ := Resolve(p.HostNetwork, "", n)
			if ip, ok := Address(n, name); ok && !p.IgnoreCollision && holdsPort(a.AllocatedResources, ip, p.Value) {
				return true
			}
		}
		return false
	}
	if a.AllocatedResources == nil {
		return false
	}
	if slices.ContainsFunc(tg.Networks, holds) {
		return true
	}
	return slices.ContainsFunc(tg.Tasks, func(t *model.Task) bool {
		return t.Resources != nil && slices.ContainsFunc(t.Resources.Networks, holds)
	})
}

func holdsPort(r *model.AllocatedResources, ip string, port int) bool {
	for _, p := range r.Shared.Ports {
		if p.HostIP == ip && p.Value == port {
			return true
		}
	}
	for _, t := range r.Tasks {
		for _, nw := range t.Networks {
			same := func(p model.Port) bool { return p.Value == port }
			if nw.IP == ip && (slices.ContainsFunc(nw.ReservedPorts, same) || slices.ContainsFunc(nw.DynamicPorts, same)) {
				return true
			}
		}
	}
	return false
}
