// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
)

func TestJobsGetTheIdentitiesOfTheirConsulCluster(t *testing.T) {
	s := newServer(t)
	s.Consul = map[string]endpoint.ConsulIdentities{
		"default": {Service: &model.WorkloadIdentity{Audience: []string{"consul.io"}}, Task: &model.WorkloadIdentity{Audience: []string{"consul.io"}, File: true}},
		"east":    {Task: &model.WorkloadIdentity{Audience: []string{"east"}}},
	}
	job := func(id, group, task string) *model.TaskGroup {
		s.register(json.RawMessage(`{"ID":"` + id + `","Name":"` + id + `","Type":"service","Datacenters":["*"],"TaskGroups":[{"Name":"g","Count":1,` + group + `
			"Services":[{"Name":"web","Provider":"consul"},{"Name":"own","Provider":"consul","Identity":{"Audience":["mine"]}},{"Name":"native","Provider":"nomad"}],
			"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"},` + task + `"Services":[{"Name":"web","Provider":"consul","PortLabel":"80"}]}]}]}`))
		return s.state().JobByID("default", id).TaskGroups[0]
	}
	tg := job("plain", "", "")
	if id := tg.Services[0].Identity; id == nil || id.ServiceName != "web" || !slices.Equal(id.Audience, []string{"consul.io"}) {
		t.Errorf("a service: %+v", id)
	}
	if id := tg.Services[1].Identity; !slices.Equal(id.Audience, []string{"mine"}) || id.Name == tg.Services[0].Identity.Name {
		t.Errorf("a service with an identity of its own: %+v", id)
	}
	if id := tg.Services[2].Identity; id != nil {
		t.Errorf("a service of provider nomad: %+v", id)
	}
	if id := tg.Tasks[0].Services[0].Identity; id == nil || id.Name == tg.Services[0].Identity.Name {
		t.Errorf("a service of a task: %+v", id)
	}
	if all := tg.Tasks[0].Identities; len(all) != 0 {
		t.Errorf("a task without a consul block: %+v", all)
	}
	if all := job("uses", `"Consul":{},`, "").Tasks[0].Identities; len(all) != 1 || all[0].Name != "consul_default" || !all[0].File {
		t.Errorf("a task of a group with a consul block: %+v", all)
	}
	tg = job("east", `"Consul":{},`, `"Consul":{"Cluster":"east"},`)
	if all := tg.Tasks[0].Identities; len(all) != 1 || all[0].Name != "consul_east" || tg.Tasks[0].Services[0].Identity != nil {
		t.Errorf("a task of another cluster: %+v, its service: %+v", all, tg.Tasks[0].Services[0].Identity)
	}
	own := job("own", "", `"Consul":{},"Identities":[{"Name":"consul_default","Audience":["mine"]}],`).Tasks[0].Identities
	if len(own) != 1 || !slices.Equal(own[0].Audience, []string{"mine"}) {
		t.Errorf("a task with an identity of its own: %+v", own)
	}
}
