// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/core/agent/taskenv"
	"github.com/drover-project/drover/core/model"
)

// ProviderNomad is the provider whose services the servers themselves know.
const ProviderNomad = "nomad"

// Input is everything that determines the registrations of an alloc.
type Input struct {
	Alloc *model.Allocation
	Job   *model.Job  // the version that the alloc runs
	Node  *model.Node // nil if it is no longer known
}

// May reports whether the alloc can have registrations: it runs, and servers want it to.
// An alloc that they want to stop loses its registrations before its node hears of it, so
// that nobody finds a service during its shutdown delay.
func May(a *model.Allocation) bool {
	return a != nil && a.ClientStatus == model.AllocClientStatusRunning && !a.ServerTerminalStatus()
}

// Registrations returns the registrations of an alloc, without indexes: those of its group
// while the alloc runs, and those of each task while that runs. Those that an operator
// removed are left out. A service without an address is left out too, such as one with
// address_mode alloc until the node has reported the network. No two have the same id.
func Registrations(in Input) []*model.ServiceRegistration {
	if !May(in.Alloc) || in.Job == nil {
		return nil
	}
	tg := in.Job.LookupTaskGroup(in.Alloc.TaskGroup)
	if tg == nil {
		return nil
	}
	var out []*model.ServiceRegistration
	out = in.add(out, "group-"+tg.Name, nil, tg.Services)
	for _, t := range tg.Tasks {
		if t != nil && len(t.Services) > 0 && serves(in.Alloc.TaskStates[t.Name]) {
			out = in.add(out, t.Name, t, t.Services)
		}
	}
	return out
}

// serves reports whether a task runs and is not about to be stopped. A task whose shutdown
// delay has begun is still running, but its services must no longer be found.
func serves(s *model.TaskState) bool {
	if s == nil || s.State != model.TaskStateRunning {
		return false
	}
	for _, e := range slices.Backward(s.Events) {
		if e == nil {
			continue
		}
		switch e.Type {
		case model.TaskStarted:
			return true
		case model.TaskKilling, model.TaskWaitingShuttingDownDelay, model.TaskRestartSignal:
			return false
		}
	}
	return true
}

func (in Input) add(out []*model.ServiceRegistration, owner string, task *model.Task, list []*model.Service) []*model.ServiceRegistration {
	var env *taskenv.Env // made for the first service that refers to something
	for _, s := range list {
		if s == nil || s.Provider != ProviderNomad {
			continue
		}
		if refers(s) {
			if env == nil {
				env = in.environment(task)
			}
			s = interpolated(s, env)
		}
		r := in.registration(owner, task, s)
		if r == nil || slices.Contains(in.Alloc.Deregistered, r.ID) {
			continue
		}
		if !slices.ContainsFunc(out, func(o *model.ServiceRegistration) bool { return o.ID == r.ID }) {
			out = append(out, r)
		}
	}
	return out
}

// registration returns the registration of a service; nil if it has no address.
func (in Input) registration(owner string, task *model.Task, s *model.Service) *model.ServiceRegistration {
	a := in.Alloc
	at, err := placeOf(a, s, task, in.Node).EndpointOf(s)
	if err != nil {
		return nil
	}
	r := &model.ServiceRegistration{
		ID:          "_nomad-task-" + a.ID + "-" + owner + "-" + s.Name + "-" + s.PortLabel,
		ServiceName: s.Name, Namespace: a.Namespace, NodeID: a.NodeID, JobID: a.JobID, AllocID: a.ID,
		Tags: s.Tags, Address: at.Address, Port: at.Port,
	}
	if a.DeploymentStatus.IsCanary() && len(s.CanaryTags) > 0 {
		r.Tags = s.CanaryTags
	}
	if r.Tags == nil {
		r.Tags = []string{}
	}
	if in.Node != nil {
		r.Datacenter = in.Node.Datacenter
	}
	return r
}

// placeOf returns where a service of a task, or of the group if task is nil, is. A service
// of the group can name the task whose address from a driver it has.
func placeOf(a *model.Allocation, s *model.Service, task *model.Task, node *model.Node) Place {
	p := Place{Alloc: a, Task: s.TaskName}
	if task != nil {
		p.Task = task.Name
	}
	if a.NetworkStatus != nil {
		p.Driver = a.NetworkStatus.Drivers[p.Task]
	}
	if node != nil {
		p.NodeAddress = node.Attributes["unique.network.ip-address"]
	}
	return p
}

// environment is what ${...} may name in services of a task, or of the group if task is
// nil: what a task sees as its environment, and the properties of its node.
func (in Input) environment(task *model.Task) *taskenv.Env {
	a := *in.Alloc
	a.Job = in.Job
	if task == nil {
		task = &model.Task{}
	}
	address := ""
	if a.NetworkStatus != nil {
		address = a.NetworkStatus.Address
	}
	return taskenv.Build(taskenv.Input{Node: in.Node, Alloc: &a, Task: task, Region: in.Job.Region, Address: address})
}

// refers reports whether one of the texts of a registration refers to something.
func refers(s *model.Service) bool {
	is := func(text string) bool { return strings.Contains(text, "${") }
	return is(s.Name) || is(s.PortLabel) || is(s.Address) || slices.ContainsFunc(s.Tags, is) || slices.ContainsFunc(s.CanaryTags, is)
}

// interpolated returns a copy of a service with the texts of its registration replaced.
func interpolated(s *model.Service, env *taskenv.Env) *model.Service {
	c := *s
	c.Name, c.PortLabel, c.Address = env.Replace(s.Name), env.Replace(s.PortLabel), env.Replace(s.Address)
	replace := func(list []string) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = env.Replace(list[i])
		}
		return out
	}
	c.Tags, c.CanaryTags = replace(s.Tags), replace(s.CanaryTags)
	return &c
}
