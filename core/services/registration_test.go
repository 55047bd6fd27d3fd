// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

func running() services.Input {
	a := bridged()
	a.Namespace, a.JobID, a.Name, a.TaskGroup, a.NodeID = "default", "shop", "shop.web[3]", "web", "n1"
	a.DesiredStatus, a.ClientStatus = model.AllocDesiredStatusRun, model.AllocClientStatusRunning
	a.TaskStates = map[string]*model.TaskState{"server": {State: model.TaskStateRunning, Events: []*model.TaskEvent{{Type: model.TaskStarted}}}}
	return services.Input{
		Alloc: a,
		Node:  &model.Node{ID: "n1", Datacenter: "dc7", Attributes: map[string]string{"unique.network.ip-address": "10.0.0.1", "kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"}},
		Job: &model.Job{Namespace: "default", ID: "shop", Name: "shop", Region: "global", TaskGroups: []*model.TaskGroup{{
			Name: "web",
			Services: []*model.Service{
				{Name: "web", PortLabel: "http", Provider: "nomad", Tags: []string{"blue", "${NOMAD_ALLOC_INDEX}", "${meta.rack}", "${none}"}, CanaryTags: []string{"canary-${NOMAD_ALLOC_INDEX}"}},
				{Name: "web", PortLabel: "http", Provider: "nomad"},
				{Name: "elsewhere", PortLabel: "http", Provider: "consul"},
				{Name: "inside", PortLabel: "http", Provider: "nomad", AddressMode: "alloc"},
			},
			Tasks: []*model.Task{{Name: "server", Env: map[string]string{"COLOR": "red"}, Services: []*model.Service{
				{Name: "${NOMAD_TASK_NAME}-${COLOR}", PortLabel: "same", Provider: "nomad", Address: "${attr.kernel.name}.example"},
			}}},
		}}},
	}
}

func named(list []*model.ServiceRegistration) (names []string) {
	for _, r := range list {
		names = append(names, r.ServiceName)
	}
	return names
}

func TestARunningAllocHasTheRegistrationsOfItsGroupAndOfItsRunningTasks(t *testing.T) {
	got := services.Registrations(running())
	base := model.ServiceRegistration{Namespace: "default", NodeID: "n1", Datacenter: "dc7", JobID: "shop", AllocID: "a1", Address: "10.0.0.1", Port: 20000, Tags: []string{}}
	web, inside, server := base, base, base
	web.ID, web.ServiceName, web.Tags = "_nomad-task-a1-group-web-web-http", "web", []string{"blue", "3", "r1", "${none}"}
	inside.ID, inside.ServiceName, inside.Address, inside.Port = "_nomad-task-a1-group-web-inside-http", "inside", "172.26.64.5", 8080
	server.ID, server.ServiceName, server.Address, server.Port = "_nomad-task-a1-server-server-red-same", "server-red", "linux.example", 20001
	if want := []*model.ServiceRegistration{&web, &inside, &server}; !reflect.DeepEqual(got, want) {
		for i := range got {
			t.Logf("got %+v", *got[i])
		}
		t.Fatalf("%d registrations, want %d", len(got), len(want))
	}
}

func TestARegistrationHasWeightAndMetadataOfItsServiceOrCanary(t *testing.T) {
	in := running()
	s := &model.Service{Name: "web", PortLabel: "http", Provider: "nomad", Weights: &model.ServiceWeights{Passing: 7, Warning: 1}, Meta: map[string]string{"rack": "${meta.rack}"}}
	in.Job.TaskGroups[0].Services, in.Job.TaskGroups[0].Tasks[0].Services = []*model.Service{s}, nil
	if got := services.Registrations(in); len(got) != 1 || got[0].Weight != 7 || got[0].Meta["rack"] != "r1" {
		t.Errorf("%+v", got)
	}
	s.CanaryMeta = map[string]string{"canary": "yes"}
	in.Alloc.DeploymentStatus = &model.AllocDeploymentStatus{Canary: true}
	if got := services.Registrations(in); len(got) != 1 || got[0].Meta["canary"] != "yes" || got[0].Meta["rack"] != "" {
		t.Errorf("a canary: %+v", got)
	}
}

func TestRegistrationsEndBeforeWhatTheyPointTo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *services.Input)
		want   []string
	}{
		"servers stop it":                 {func(in *services.Input) { in.Alloc.DesiredStatus = model.AllocDesiredStatusStop }, nil},
		"its node is gone":                {func(in *services.Input) { in.Alloc.ClientStatus = model.AllocClientStatusUnknown }, nil},
		"it has ended":                    {func(in *services.Input) { in.Alloc.ClientStatus = model.AllocClientStatusFailed }, nil},
		"it has not begun":                {func(in *services.Input) { in.Alloc.ClientStatus = model.AllocClientStatusPending }, nil},
		"its group is unknown":            {func(in *services.Input) { in.Alloc.TaskGroup = "x" }, nil},
		"its job is unknown":              {func(in *services.Input) { in.Job = nil }, nil},
		"the network is not reported yet": {func(in *services.Input) { in.Alloc.NetworkStatus = nil }, []string{"web", "server-red"}},
		"a task is pending":               {func(in *services.Input) { in.Alloc.TaskStates["server"].State = model.TaskStatePending }, []string{"web", "inside"}},
		"a task waits for its shutdown delay": {func(in *services.Input) {
			s := in.Alloc.TaskStates["server"]
			s.Events = append(s.Events, &model.TaskEvent{Type: model.TaskWaitingShuttingDownDelay}, &model.TaskEvent{Type: model.TaskDriverMessage})
		}, []string{"web", "inside"}},
		"a task is restarted": {func(in *services.Input) {
			s := in.Alloc.TaskStates["server"]
			s.Events = append(s.Events, &model.TaskEvent{Type: model.TaskRestartSignal})
		}, []string{"web", "inside"}},
		"a task was restarted": {func(in *services.Input) {
			s := in.Alloc.TaskStates["server"]
			s.Events = append(s.Events, &model.TaskEvent{Type: model.TaskRestartSignal}, &model.TaskEvent{Type: model.TaskTerminated}, &model.TaskEvent{Type: model.TaskStarted})
		}, []string{"web", "inside", "server-red"}},
		"an operator removed one": {func(in *services.Input) { in.Alloc.Deregistered = []string{"_nomad-task-a1-group-web-web-http"} }, []string{"inside", "server-red"}},
	} {
		in := running()
		c.change(&in)
		if got := named(services.Registrations(in)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: registered %v, want %v", name, got, c.want)
		}
	}
}

func TestACanaryHasItsOwnTagsUntilItIsPromoted(t *testing.T) {
	in := running()
	in.Alloc.DeploymentStatus = &model.AllocDeploymentStatus{Canary: true}
	list := services.Registrations(in)
	if got := list[0].Tags; !reflect.DeepEqual(got, []string{"canary-3"}) {
		t.Errorf("a canary has the tags %v", got)
	}
	in.Alloc.DeploymentStatus = &model.AllocDeploymentStatus{}
	if got := services.Registrations(in)[0].Tags[0]; got != "blue" {
		t.Errorf("after its promotion it has the tag %s", got)
	}
}

func TestAServiceOfATaskHasTheAddressThatItsDriverGaveIt(t *testing.T) {
	in := running()
	in.Alloc.NetworkStatus.Drivers = map[string]*model.DriverNetwork{"server": {IP: "10.32.0.2", AutoAdvertise: true}}
	in.Job.TaskGroups[0].Tasks[0].Services[0] = &model.Service{Name: "web", PortLabel: "http", Provider: "nomad"}
	list := services.Registrations(in)
	if got := list[len(list)-1]; got.Address != "10.32.0.2" || got.Port != 8080 {
		t.Errorf("it has %s:%d", got.Address, got.Port)
	}
}

func TestAChoiceIsStableAndChangesOnlyWithWhatItContains(t *testing.T) {
	pick := func(list []string, key string) []string {
		return services.Choose(append([]string{}, list...), 2, key, func(s string) string { return s })
	}
	all := []string{"a", "b", "c", "d", "e", "f"}
	seen := map[string]bool{}
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		two := pick(all, key)
		seen[two[0]] = true
		if again := pick([]string{"f", "e", "d", "c", "b", "a"}, key); !reflect.DeepEqual(two, again) {
			t.Errorf("key %s: %v, and in another order %v", key, two, again)
		}
		for _, gone := range all {
			var rest []string
			for _, s := range all {
				if s != gone {
					rest = append(rest, s)
				}
			}
			if now := pick(rest, key); gone != two[0] && gone != two[1] && !reflect.DeepEqual(now, two) {
				t.Errorf("key %s: without %s, which was not chosen, %v becomes %v", key, gone, two, now)
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("all keys choose %v", seen)
	}
}

func TestARegistrationSaysWhetherACheckOfItsServiceFails(t *testing.T) {
	in := running()
	g := in.Job.TaskGroups[0]
	in.Alloc.NetworkStatus.Failing = []string{services.Key(nil, g.Services[3]), services.Key(g.Tasks[0], g.Tasks[0].Services[0])}
	failing := map[string]bool{}
	for _, r := range services.Registrations(in) {
		failing[r.ServiceName] = r.Failing
	}
	if !reflect.DeepEqual(failing, map[string]bool{"web": false, "inside": true, "server-red": true}) {
		t.Errorf("%v", failing)
	}
}

func TestAServiceWithoutAnAddressIsMissingAndNamed(t *testing.T) {
	in := running()
	in.Alloc.NetworkStatus = nil
	missing := services.Unregistered(in)
	if len(missing) != 1 || missing[0].Task != "" || !strings.Contains(missing[0].Err.Error(), `service "inside"`) {
		t.Errorf("%v", missing)
	}
	in.Alloc.ClientStatus = model.AllocClientStatusPending
	if missing := services.Unregistered(in); len(missing) > 0 {
		t.Errorf("of an alloc that does not run yet: %v", missing)
	}
}
