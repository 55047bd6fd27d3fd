// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// allocDetail is an alloc in answers: with its job and, for older clients, its
// resources in the form of a request.
type allocDetail struct {
	*model.Allocation
	Resources       *model.Resources
	SharedResources *model.Resources
	TaskResources   map[string]*model.Resources
}

func withJob(v View, a *model.Allocation) *model.Allocation {
	if a.Job != nil {
		return a
	}
	c := *a
	c.Job = v.JobOf(a)
	return &c
}

func detailOf(v View, a *model.Allocation) *allocDetail {
	d := &allocDetail{Allocation: withJob(v, a)}
	if a.AllocatedResources == nil {
		return d
	}
	shared := a.AllocatedResources.Shared
	d.SharedResources = &model.Resources{DiskMB: int(shared.DiskMB), Networks: shared.Networks}
	d.Resources = &model.Resources{DiskMB: int(shared.DiskMB), Networks: shared.Networks}
	d.TaskResources = make(map[string]*model.Resources, len(a.AllocatedResources.Tasks))
	for name, t := range a.AllocatedResources.Tasks {
		r := &model.Resources{CPU: int(t.Cpu.CpuShares), Cores: len(t.Cpu.ReservedCores), MemoryMB: int(t.Memory.MemoryMB),
			MemoryMaxMB: int(t.Memory.MemoryMaxMB), Networks: t.Networks}
		for _, dev := range t.Devices {
			r.Devices = append(r.Devices, &model.RequestedDevice{Name: dev.Vendor + "/" + dev.Type + "/" + dev.Name, Count: uint64(len(dev.DeviceIDs))})
		}
		d.TaskResources[name] = r
		d.Resources.CPU += r.CPU
		d.Resources.Cores += r.Cores
		d.Resources.MemoryMB += r.MemoryMB
		d.Resources.MemoryMaxMB += max(r.MemoryMB, r.MemoryMaxMB)
		d.Resources.Networks = append(d.Resources.Networks[:len(d.Resources.Networks):len(d.Resources.Networks)], r.Networks...)
		d.Resources.Devices = append(d.Resources.Devices, r.Devices...)
	}
	return d
}

func allocStub(v View, a *model.Allocation) *model.AllocListStub {
	st := a.Stub()
	if j := withJob(v, a).Job; j != nil {
		st.JobType, st.JobVersion = j.Type, j.Version
	}
	return st
}

func allocStubs(v View, allocs []*model.Allocation) []*model.AllocListStub {
	out := make([]*model.AllocListStub, 0, len(allocs))
	for _, a := range allocs {
		out = append(out, allocStub(v, a))
	}
	return out
}

func listAllocs(v View, q *query) result {
	prefix, resources, states := q.prefix(), q.flag("resources"), paramsOf(q.r).get("task_states") != "false"
	if err := isPrefixOfID(prefix); err != nil {
		return failed(err)
	}
	p := page[*model.Allocation]{
		items: v.Allocs(),
		keep: func(a *model.Allocation) bool {
			return q.inNamespace(a.Namespace) && hasPrefixFold(a.ID, prefix)
		},
		order:  func(a *model.Allocation) order { return order{a.CreateIndex, a.ID} },
		byTime: true,
	}
	return listOf(q, p, func(a *model.Allocation) *model.AllocListStub {
		st := allocStub(v, a)
		if resources {
			st.AllocatedResources = a.AllocatedResources
		}
		if !states {
			st.TaskStates = nil
		}
		return st
	})
}

// isUUID returns a check that rejects a path whose id cannot be one, with the
// reference's error text.
func isUUID(kind string) func(*http.Request) error {
	return func(r *http.Request) error {
		if len(r.PathValue("id")) != 36 {
			return fail(http.StatusInternalServerError, kind+" lookup failed: index error: UUID must be 36 characters")
		}
		return nil
	}
}

func allocID(q *query) string { return strings.ToLower(q.r.PathValue("id")) }

func allocKey(q *query) []state.Key {
	return []state.Key{{Table: state.TableAllocs, Value: allocID(q)}}
}

func theAlloc(v View, q *query) (*model.Allocation, error) {
	return orMissing(v.AllocByID(allocID(q)), "alloc not found")
}

func allocIndex(a *model.Allocation) uint64 { return a.ModifyIndex }

func showAlloc(v View, _ *query, a *model.Allocation) result { return shown(detailOf(v, a)) }

func showAllocs(v View, _ *query, allocs []*model.Allocation) result {
	return shown(allocStubs(v, allocs))
}

func (s *Server) stopAlloc(w http.ResponseWriter, r *http.Request) (any, error) {
	noDelay, err := boolParam(r, "no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	reschedule, err := boolParam(r, "reschedule")
	if err != nil {
		return nil, err
	}
	resp, err := s.backend.StopAlloc(r.Context(), r.PathValue("id"), noDelay, reschedule)
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func allocsOfNode(v View, q *query) loaded[*model.Allocation] {
	all := paramsOf(q.r).get("namespace") == ""
	var out []*model.Allocation
	for _, a := range v.AllocsByNode(q.r.PathValue("id")) {
		if all || q.inNamespace(a.Namespace) {
			out = append(out, a)
		}
	}
	return loaded[*model.Allocation]{rows: out}
}

func showAllocDetails(v View, _ *query, allocs []*model.Allocation) result {
	out := make([]*allocDetail, 0, len(allocs))
	for _, a := range allocs {
		out = append(out, detailOf(v, a))
	}
	return shown(out)
}

func allocsOfEval(v View, q *query) loaded[*model.Allocation] {
	return loaded[*model.Allocation]{rows: v.AllocsByEval(q.r.PathValue("id"))}
}

func allocsOfDeployment(v View, q *query) loaded[*model.Allocation] {
	return loaded[*model.Allocation]{rows: v.AllocsByDeployment(q.r.PathValue("id"))}
}
