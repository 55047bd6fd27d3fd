// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"encoding/json"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// TestWhoWaitsForAScalingPolicyIsWokenWhenItChanges shows the index that a policy has: one that
// never grew kept autoscalers waiting for ever.
func TestWhoWaitsForAScalingPolicyIsWokenWhenItChanges(t *testing.T) {
	p := &model.ScalingPolicy{ID: uuid, Type: "horizontal", Max: 3, Target: map[string]string{"Job": "a"}}
	job := &model.Job{Namespace: "default", ID: "a", CreateIndex: 4, JobModifyIndex: 7, ModifyIndex: 9, TaskGroups: []*model.TaskGroup{{Name: "g", Scaling: p}}}
	srv := serve(t, newBackend(&fakeView{index: 9, jobs: []*model.Job{job}}))
	// With index=6 the query would block if the policy's index were not greater.
	resp, body := ask(t, srv, "GET", "/v1/scaling/policy/"+uuid+"?index=6&wait=10m", "")
	var got model.ScalingPolicy
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.Header.Get("X-Nomad-Index") != "7" || got.CreateIndex != 4 || got.ModifyIndex != 7 {
		t.Errorf("X-Nomad-Index %s, %s, %v", resp.Header.Get("X-Nomad-Index"), body, err)
	}
	_, body = ask(t, srv, "GET", "/v1/scaling/policies", "")
	var list []api.ScalingPolicyStub
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 1 || list[0].CreateIndex != 4 || list[0].ModifyIndex != 7 {
		t.Errorf("%s, %v", body, err)
	}
}
