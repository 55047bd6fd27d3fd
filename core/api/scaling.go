// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"iter"
	"net/http"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// ScalingPolicyStub is the short form of a scaling policy.
type ScalingPolicyStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

// policies yields the scaling policies of the jobs that are not stopped.
func policies(jobs iter.Seq[*model.Job]) iter.Seq[*model.ScalingPolicy] {
	return func(yield func(*model.ScalingPolicy) bool) {
		for j := range jobs {
			if j.Stopped() {
				continue
			}
			for _, tg := range j.TaskGroups {
				if tg.Scaling != nil && !yield(tg.Scaling) {
					return
				}
				for _, t := range tg.Tasks {
					for _, p := range t.ScalingPolicies {
						if !yield(p) {
							return
						}
					}
				}
			}
		}
	}
}

func (s *Server) listScalingPolicies(w http.ResponseWriter, r *http.Request) (any, error) {
	job, kind := paramsOf(r).get("job"), paramsOf(r).get("type")
	return s.read(w, r, tables(state.TableJobs), func(v View, q *query) answer {
		prefix := q.prefix()
		p := page[*model.ScalingPolicy]{
			items: policies(v.Jobs(q.stateNamespace())),
			keep: func(p *model.ScalingPolicy) bool {
				return (job == "" || p.Target["Job"] == job) && (kind == "" || p.Type == kind) && hasPrefixFold(p.ID, prefix)
			},
			order: func(p *model.ScalingPolicy) order { return order{id: p.ID} },
		}
		return listOf(q, v.TableIndex(state.TableJobs), p, func(p *model.ScalingPolicy) *ScalingPolicyStub {
			return &ScalingPolicyStub{ID: p.ID, Enabled: p.Enabled, Type: p.Type, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
		})
	})
}

func (s *Server) scalingPolicy(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	return s.read(w, r, tables(state.TableJobs), func(v View, _ *query) answer {
		for p := range policies(v.Jobs("")) {
			if p.ID == id {
				return answer{index: p.ModifyIndex, value: p}
			}
		}
		return notFound(v, state.TableJobs, "policy not found")
	})
}
