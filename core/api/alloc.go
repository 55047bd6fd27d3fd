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
	st := &model.AllocListStub{
		ID: a.ID, EvalID: a.EvalID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, JobVersion: a.JobVersion, TaskGroup: a.TaskGroup,
		DesiredStatus: a.DesiredStatus, DesiredDescription: a.DesiredDescription,
		ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription, DesiredTransition: a.DesiredTransition,
		TaskStates: a.TaskStates, DeploymentStatus: a.DeploymentStatus, FollowupEvalID: a.FollowupEvalID,
		NextAllocation: a.NextAllocation, RescheduleTracker: a.RescheduleTracker,
		PreemptedAllocations: a.PreemptedAllocations, PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
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

func (s *Server) listAllocs(w http.ResponseWriter, r *http.Request) (any, error) {
	resources, err := boolParam(r, "resources")
	if err != nil {
		return nil, err
	}
	states := paramsOf(r).get("task_states") != "false"
	return s.read(w, r, tables(state.TableAllocs), func(v View, q *query) answer {
		prefix := q.prefix()
		if err := isPrefixOfID(prefix); err != nil {
			return answer{err: err}
		}
		p := page[*model.Allocation]{
			items: v.Allocs(),
			keep: func(a *model.Allocation) bool {
				return q.inNamespace(a.Namespace) && hasPrefixFold(a.ID, prefix)
			},
			order:  func(a *model.Allocation) order { return order{a.CreateIndex, a.ID} },
			byTime: true,
		}
		return listOf(q, v.TableIndex(state.TableAllocs), p, func(a *model.Allocation) *model.AllocListStub {
			st := allocStub(v, a)
			if resources {
				st.AllocatedResources = a.AllocatedResources
			}
			if !states {
				st.TaskStates = nil
			}
			return st
		})
	})
}

// checkUUID rejects text that cannot be an id, with the reference's error text.
func checkUUID(kind, id string) error {
	if len(id) != 36 {
		return fail(http.StatusInternalServerError, kind+" lookup failed: index error: UUID must be 36 characters")
	}
	return nil
}

func (s *Server) allocByID(w http.ResponseWriter, r *http.Request) (any, error) {
	id := strings.ToLower(r.PathValue("id"))
	if err := checkUUID("alloc", id); err != nil {
		return nil, err
	}
	return s.read(w, r, rows(state.TableAllocs, "", id), func(v View, _ *query) answer {
		a := v.AllocByID(id)
		if a == nil {
			return notFound(v, state.TableAllocs, "alloc not found")
		}
		return answer{index: a.ModifyIndex, value: detailOf(v, a)}
	})
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

func (s *Server) nodeAllocs(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	return s.read(w, r, rows(state.TableAllocs, state.ByNode, id), func(v View, q *query) answer {
		allocs := v.AllocsByNode(id)
		out := make([]*allocDetail, 0, len(allocs))
		for _, a := range allocs {
			if q.inNamespace(a.Namespace) || paramsOf(r).get("namespace") == "" {
				out = append(out, detailOf(v, a))
			}
		}
		return answer{index: rowsIndex(v, state.TableAllocs, out, func(a *allocDetail) uint64 { return a.ModifyIndex }), value: out}
	})
}
