// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/taskenv"
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
// address_mode alloc until the node has reported the network, and one whose name refers to
// what nothing defines. No two have the same id.
func Registrations(in Input) []*model.ServiceRegistration {
	out, _ := derive(in)
	return out
}

// Missing is a service that has no registration although it should.
type Missing struct {
	Task string // that offers it; "" if the group does
	Err  error  // why it has none; names the service
}

// Unregistered returns the services of an alloc that have no address, or no name.
func Unregistered(in Input) []Missing {
	_, missing := derive(in)
	return missing
}

func derive(in Input) (out []*model.ServiceRegistration, missing []Missing) {
	if !May(in.Alloc) || in.Job == nil {
		return nil, nil
	}
	tg := in.Job.LookupTaskGroup(in.Alloc.TaskGroup)
	if tg == nil {
		return nil, nil
	}
	d := &derivation{Input: in}
	d.add("group-"+tg.Name, nil, tg.Services)
	for _, t := range tg.Tasks {
		if t != nil && len(t.Services) > 0 && serves(in.Alloc.TaskStates[t.Name]) {
			d.add(t.Name, t, t.Services)
		}
	}
	return d.out, d.missing
}

// derivation collects the registrations of an alloc.
type derivation struct {
	Input
	out     []*model.ServiceRegistration
	missing []Missing
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

// Key names a service of a task, or of the group if task is nil, within its alloc, as the job
// has it.
func Key(task *model.Task, s *model.Service) string {
	owner := ""
	if task != nil {
		owner = task.Name
	}
	return strings.Join([]string{owner, s.Name, s.PortLabel}, "/")
}

func (d *derivation) add(owner string, task *model.Task, list []*model.Service) {
	var env *taskenv.Env // made for the first service that refers to something
	for _, s := range list {
		if s == nil || s.Provider != ProviderNomad {
			continue
		}
		failing := d.Alloc.NetworkStatus != nil && slices.Contains(d.Alloc.NetworkStatus.Failing, Key(task, s))
		if refers(s) {
			if env == nil {
				env = d.environment(task)
			}
			s = interpolated(s, env)
		}
		r, err := d.registration(owner, task, s)
		if err != nil {
			m := Missing{Err: err}
			if task != nil {
				m.Task = task.Name
			}
			d.missing = append(d.missing, m)
			continue
		}
		if slices.Contains(d.Alloc.Deregistered, r.ID) {
			continue
		}
		r.Failing = failing
		if !slices.ContainsFunc(d.out, func(o *model.ServiceRegistration) bool { return o.ID == r.ID }) {
			d.out = append(d.out, r)
		}
	}
}

// registration returns the registration of a service. It fails if that has no address.
func (in Input) registration(owner string, task *model.Task, s *model.Service) (*model.ServiceRegistration, error) {
	a := in.Alloc
	at, err := placeOf(a, s, task, in.Node).EndpointOf(s)
	if err != nil {
		return nil, err
	}
	r := &model.ServiceRegistration{
		ID:          "_nomad-task-" + a.ID + "-" + owner + "-" + s.Name + "-" + s.PortLabel,
		ServiceName: s.Name, Namespace: a.Namespace, NodeID: a.NodeID, JobID: a.JobID, AllocID: a.ID,
		Tags: s.Tags, Address: at.Address, Port: at.Port, Meta: s.Meta,
	}
	if s.Weights != nil {
		r.Weight = s.Weights.Passing
	}
	if a.DeploymentStatus.IsCanary() && len(s.CanaryTags) > 0 {
		r.Tags = s.CanaryTags
	}
	if a.DeploymentStatus.IsCanary() && len(s.CanaryMeta) > 0 {
		r.Meta = s.CanaryMeta
	}
	if r.Tags == nil {
		r.Tags = []string{}
	}
	if in.Node != nil {
		r.Datacenter = in.Node.Datacenter
	}
	return r, nil
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
	return is(s.Name) || is(s.PortLabel) || is(s.Address) || slices.ContainsFunc(s.Tags, is) || slices.ContainsFunc(s.CanaryTags, is) ||
		refersIn(s.Meta) || refersIn(s.CanaryMeta)
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
	c.Meta, c.CanaryMeta = replaced(s.Meta, env), replaced(s.CanaryMeta, env)
	return &c
}
