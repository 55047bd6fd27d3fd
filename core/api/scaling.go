// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"iter"
	"net/http"

	"github.com/drover-project/drover/core/model"
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

// policies yields the scaling policies of the jobs that are not stopped. A policy has the
// indexes of its job, with whose specification it changes: a query that blocks on a policy waits
// for a greater one.
func policies(jobs iter.Seq[*model.Job]) iter.Seq[*model.ScalingPolicy] {
	return func(yield func(*model.ScalingPolicy) bool) {
		for j := range jobs {
			if j.Stopped() {
				continue
			}
			of := func(p *model.ScalingPolicy) *model.ScalingPolicy {
				shown := *p
				shown.CreateIndex, shown.ModifyIndex = j.CreateIndex, j.JobModifyIndex
				return &shown
			}
			for _, tg := range j.TaskGroups {
				if tg.Scaling != nil && !yield(of(tg.Scaling)) {
					return
				}
				for _, t := range tg.Tasks {
					for _, p := range t.ScalingPolicies {
						if !yield(of(p)) {
							return
						}
					}
				}
			}
		}
	}
}

func listScalingPolicies(v View, q *query) result {
	job, kind, prefix := paramsOf(q.r).get("job"), paramsOf(q.r).get("type"), q.prefix()
	p := page[*model.ScalingPolicy]{
		items: policies(v.Jobs(q.stateNamespace())),
		keep: func(p *model.ScalingPolicy) bool {
			return (job == "" || p.Target["Job"] == job) && (kind == "" || p.Type == kind) && hasPrefixFold(p.ID, prefix)
		},
		order: func(p *model.ScalingPolicy) order { return order{id: p.ID} },
	}
	return listOf(q, p, func(p *model.ScalingPolicy) *ScalingPolicyStub {
		return &ScalingPolicyStub{ID: p.ID, Enabled: p.Enabled, Type: p.Type, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
	})
}

func thePolicy(v View, q *query) (*model.ScalingPolicy, error) {
	id := q.r.PathValue("id")
	for p := range policies(v.Jobs("")) {
		if p.ID == id {
			return p, nil
		}
	}
	return nil, fail(http.StatusNotFound, "policy not found")
}

func policyIndex(p *model.ScalingPolicy) uint64 { return p.ModifyIndex }
