// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

func group(name string, tasks ...*model.Task) *model.TaskGroup {
	return &model.TaskGroup{Name: name, Tasks: tasks}
}

func TestWhatNobodyActsOnIsAWarningByName(t *testing.T) {
	hour := time.Hour
	payload := group("g", &model.Task{Name: "t", DispatchPayload: &model.DispatchPayloadConfig{File: "in"}})
	for _, c := range []struct {
		what string
		job  *model.Job
		want []string
	}{
		{"nothing", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "http"})}}, nil},
		{"of the job", &model.Job{VaultNamespace: "a"}, []string{"not acted on yet: Vault namespace of the job"}},
		{"services", &model.Job{TaskGroups: []*model.TaskGroup{
			{Name: "web", Services: []*model.Service{{Name: "http", Provider: "nomad", Tags: []string{"a"}}, {Name: "admin", Provider: "consul"}}},
			group("db", &model.Task{Name: "sql", Services: []*model.Service{{Name: "pg", Provider: "nomad", Kind: "a", Meta: map[string]string{"a": "b"}, Checks: []*model.ServiceCheck{{Name: "c"}}}}}),
		}}, []string{
			"not acted on yet: kind of service (only Consul has kinds of services) of db/sql"}},
		{"a bridge", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Networks: []*model.NetworkResource{{Mode: "bridge", Hostname: "w"}}}}},
			nil},
		{"a hostname of the node's network", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Networks: []*model.NetworkResource{{Hostname: "w"}}}}},
			[]string{"not acted on yet: hostname of the node's network of web"}},
		{"the node's network", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Networks: []*model.NetworkResource{{Mode: "host"}, {}}}}}, nil},
		{"a default", &model.Job{Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{Name: "web", Update: &model.UpdateStrategy{Stagger: 30 * time.Second}}}}, nil},
		{"not the default", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Update: &model.UpdateStrategy{Stagger: time.Second}}}},
			[]string{"not acted on yet: stagger of update of web"}},
		{"the default identity", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Identity: &model.WorkloadIdentity{Name: "default", Audience: []string{model.DefaultAudience}}})}}, nil},
		{"an identity of its own", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Identity: &model.WorkloadIdentity{Env: true, Audience: []string{"x"}}})}}, nil},
		{"an identity that nobody asks for", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Identities: []*model.WorkloadIdentity{{Name: "vault"}, {Name: "x", File: true}}})}},
			[]string{"not acted on yet: identity vault, which the task is given neither as env nor as file of web/t"}},
		{"a volume", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "db", Volumes: map[string]*model.VolumeRequest{"b": {Name: "b", Type: "csi"}, "a": {Name: "a", Type: "host", Sticky: true}}}}},
			nil},
		{"vault", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "a", Vault: &model.Vault{}}, &model.Task{Name: "b", Vault: &model.Vault{}})}},
			[]string{"not acted on yet: vault (no node has Vault yet, so nothing of the group is placed; take the block out, and use variables or identities) of web/a, web/b"}},
		{"a payload for nobody", &model.Job{TaskGroups: []*model.TaskGroup{payload}}, []string{"not acted on yet: dispatch_payload of a job that gets no payload of g/t"}},
		{"a forbidden payload", &model.Job{ParameterizedJob: &model.ParameterizedJobConfig{Payload: "forbidden"}, TaskGroups: []*model.TaskGroup{payload}},
			[]string{"not acted on yet: dispatch_payload of a job that gets no payload of g/t"}},
		{"a payload", &model.Job{ParameterizedJob: &model.ParameterizedJobConfig{Payload: "optional"}, Dispatched: true, TaskGroups: []*model.TaskGroup{payload}}, nil},
		{"a long run", &model.Job{Type: model.JobTypeBatch, Update: model.UpdateStrategy{MaxParallel: 2}}, []string{"not acted on yet: update of a job whose type has no roll-outs"}},
		{"cores of one NUMA node", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Resources: &model.Resources{
			Cores: 1, NUMA: &model.NUMA{Affinity: "require"},
		}})}}, nil},
		{"a NUMA node of nothing", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Resources: &model.Resources{
			CPU: 100, NUMA: &model.NUMA{Affinity: "prefer"},
		}})}}, []string{"not acted on yet: numa affinity prefer without cores or devices of numa of web/t"}},
		{"what only other types of checks have", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Services: []*model.Service{{Provider: "nomad", Checks: []*model.ServiceCheck{
			{Type: "tcp", Path: "/", Method: "GET", Body: "b", Header: map[string][]string{"a": {"b"}}, Protocol: "https", Command: "c", Args: []string{"a"}, GRPCService: "s", GRPCUseTLS: true, TLSSkipVerify: true, TLSServerName: "n", Advertise: "a"},
			{Type: "HTTP", Path: "/", Method: "GET", Body: "b", Header: map[string][]string{"a": {"b"}}, Protocol: "https", TLSSkipVerify: true, TLSServerName: "n"},
			{Type: "grpc", GRPCService: "s", GRPCUseTLS: true, TLSSkipVerify: true, TLSServerName: "n"}, {Type: "script", Command: "c", Args: []string{"a"}},
		}}}}}}, []string{
			"not acted on yet: command of check (only checks of type script have it) of web", "not acted on yet: args of check (only checks of type script have it) of web",
			"not acted on yet: path of check (only checks of type http have it) of web", "not acted on yet: protocol of check (only checks of type http have it) of web",
			"not acted on yet: tls_server_name of check (only checks of type http and grpc have it) of web", "not acted on yet: tls_skip_verify of check (only checks of type http and grpc have it) of web",
			"not acted on yet: method of check (only checks of type http have it) of web", "not acted on yet: header of check (only checks of type http have it) of web",
			"not acted on yet: grpc_service of check (only checks of type grpc have it) of web", "not acted on yet: grpc_use_tls of check (only checks of type grpc have it) of web",
			"not acted on yet: body of check (only checks of type http have it) of web", "not acted on yet: advertise of check (use address_mode) of web",
		}},
		{"what only other changes of templates have", &model.Job{TaskGroups: []*model.TaskGroup{group("web", &model.Task{Name: "t", Templates: []*model.Template{
			{ChangeMode: "restart", ChangeSignal: "SIGHUP", ChangeScript: &model.ChangeScript{Command: "c"}},
			{ChangeMode: "signal", ChangeSignal: "SIGHUP"}, {ChangeMode: "script", ChangeScript: &model.ChangeScript{Command: "c"}},
		}})}}, []string{"not acted on yet: change_signal of template without change_mode signal of web/t", "not acted on yet: change_script of template without change_mode script of web/t"}},
		{"a sidecar of nothing", &model.Job{TaskGroups: []*model.TaskGroup{group("web",
			&model.Task{Name: "a", Lifecycle: &model.TaskLifecycleConfig{Hook: "poststop", Sidecar: true}}, &model.Task{Name: "b", Lifecycle: &model.TaskLifecycleConfig{Hook: "poststart", Sidecar: true}})}},
			[]string{"not acted on yet: sidecar of lifecycle poststop (it runs when the other tasks have ended) of web/a"}},
		{"a collision of nothing", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Networks: []*model.NetworkResource{{
			DynamicPorts: []model.Port{{Label: "a", IgnoreCollision: true}}, ReservedPorts: []model.Port{{Label: "b", Value: 80, IgnoreCollision: true}}}}}}},
			[]string{"not acted on yet: ignore_collision of a port without static of web"}},
		{"stop on client", &model.Job{TaskGroups: []*model.TaskGroup{{Name: "web", Disconnect: &model.DisconnectStrategy{StopOnClientAfter: &hour}}}}, nil},
	} {
		if got := c.job.NotActedOn(); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.what, got, c.want)
		}
	}
}

func TestOneWarningNamesFewPlaces(t *testing.T) {
	job := &model.Job{}
	for i := range 1000 {
		job.TaskGroups = append(job.TaskGroups, group(fmt.Sprint("g", i), &model.Task{Name: "t", Vault: &model.Vault{}}))
	}
	want := []string{"not acted on yet: vault (no node has Vault yet, so nothing of the group is placed; take the block out, and use variables or identities) of g0/t, g1/t, g2/t, g3/t, g4/t, and 995 more"}
	if got := job.NotActedOn(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
