// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"crypto/sha256"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// ServiceRegistration is one instance of a service. It is derived from the running
// allocs, so it can be neither missed nor left behind.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      string
	Datacenter  string
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int
	CreateIndex uint64
	ModifyIndex uint64
}

// ServiceStub is a service of a namespace with all its tags.
type ServiceStub struct {
	ServiceName string
	Tags        []string
}

// NamespaceServices are the services of a namespace.
type NamespaceServices struct {
	Namespace string
	Services  []*ServiceStub
}

const providerNomad = "nomad"

// registrations returns the service instances of an alloc.
func registrations(v View, a *model.Allocation) []*ServiceRegistration {
	if a.TerminalStatus() || a.ClientStatus != model.AllocClientStatusRunning {
		return nil
	}
	a = withJob(v, a)
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	var out []*ServiceRegistration
	for _, svc := range tg.Services {
		out = appendRegistration(out, v, a, "group-"+tg.Name, "", svc)
	}
	for _, t := range tg.Tasks {
		if st := a.TaskStates[t.Name]; st == nil || st.State != model.TaskStateRunning {
			continue
		}
		for _, svc := range t.Services {
			out = appendRegistration(out, v, a, t.Name, t.Name, svc)
		}
	}
	return out
}

func appendRegistration(out []*ServiceRegistration, v View, a *model.Allocation, owner, task string, svc *model.Service) []*ServiceRegistration {
	if svc.Provider != providerNomad {
		return out
	}
	names := strings.NewReplacer("${JOB}", a.Job.Name, "${TASKGROUP}", a.TaskGroup, "${TASK}", task,
		"${BASE}", a.Job.Name+"-"+a.TaskGroup+"-"+task, "${NOMAD_JOB_NAME}", a.Job.Name, "${NOMAD_JOB_ID}", a.JobID,
		"${NOMAD_GROUP_NAME}", a.TaskGroup, "${NOMAD_TASK_NAME}", task, "${NOMAD_NAMESPACE}", a.Namespace,
		"${NOMAD_ALLOC_ID}", a.ID, "${NOMAD_ALLOC_INDEX}", strconv.Itoa(a.Index()))
	name := names.Replace(svc.Name)
	tags := svc.Tags
	if a.DeploymentStatus.IsCanary() && len(svc.CanaryTags) > 0 {
		tags = svc.CanaryTags
	}
	r := &ServiceRegistration{
		ID:          "_nomad-task-" + a.ID + "-" + owner + "-" + name + "-" + svc.PortLabel,
		ServiceName: name, Namespace: a.Namespace, NodeID: a.NodeID, JobID: a.JobID, AllocID: a.ID,
		Tags: []string{}, CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex,
	}
	for _, t := range tags {
		r.Tags = append(r.Tags, names.Replace(t))
	}
	if n := v.NodeByID(a.NodeID); n != nil {
		r.Datacenter = n.Datacenter
	}
	r.Address, r.Port = portOf(a, svc.PortLabel)
	if svc.Address != "" {
		r.Address = names.Replace(svc.Address)
	}
	return append(out, r)
}

// portOf finds a port of the alloc by its label.
func portOf(a *model.Allocation, label string) (string, int) {
	number, err := strconv.Atoi(label)
	literal := err == nil
	if a.AllocatedResources == nil {
		return "", number
	}
	shared := a.AllocatedResources.Shared
	for _, p := range shared.Ports {
		if p.Label == label || literal {
			if literal {
				return p.HostIP, number
			}
			return p.HostIP, p.Value
		}
	}
	for _, t := range a.AllocatedResources.Tasks {
		for _, n := range t.Networks {
			for _, p := range append(slices.Clone(n.ReservedPorts), n.DynamicPorts...) {
				if p.Label == label {
					return n.IP, p.Value
				}
			}
		}
	}
	return "", number
}

func listServices(v View, q *query) result {
	tags := map[string]map[string][]string{} // namespace, service
	for a := range v.Allocs() {
		if !q.inNamespace(a.Namespace) {
			continue
		}
		for _, reg := range registrations(v, a) {
			if tags[reg.Namespace] == nil {
				tags[reg.Namespace] = map[string][]string{}
			}
			tags[reg.Namespace][reg.ServiceName] = append(tags[reg.Namespace][reg.ServiceName], reg.Tags...)
		}
	}
	p := page[*NamespaceServices]{
		items: func(yield func(*NamespaceServices) bool) {
			for ns, services := range tags {
				group := &NamespaceServices{Namespace: ns}
				for _, name := range slices.Sorted(maps.Keys(services)) {
					group.Services = append(group.Services, &ServiceStub{ServiceName: name, Tags: sortedSet(services[name])})
				}
				if !yield(group) {
					return
				}
			}
		},
		order: func(n *NamespaceServices) order { return order{id: n.Namespace} },
	}
	return listOf(q, p, func(n *NamespaceServices) *NamespaceServices { return n })
}

func sortedSet(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return slices.Compact(out)
}

// registrationsIn returns the registrations of allocs that keep accepts; a nil keep
// accepts all.
func registrationsIn(v View, allocs iter.Seq[*model.Allocation], keep func(*ServiceRegistration) bool) []*ServiceRegistration {
	var out []*ServiceRegistration
	for a := range allocs {
		for _, reg := range registrations(v, a) {
			if keep == nil || keep(reg) {
				out = append(out, reg)
			}
		}
	}
	return out
}

// pageOfRegistrations returns a page of registrations, oldest first.
func pageOfRegistrations(q *query, list []*ServiceRegistration) result {
	p := page[*ServiceRegistration]{
		items:  slices.Values(list),
		order:  func(r *ServiceRegistration) order { return order{r.CreateIndex, r.ID} },
		byTime: true,
	}
	return listOf(q, p, func(r *ServiceRegistration) *ServiceRegistration { return r })
}

func serviceByName(r *http.Request, _ *query) (func(View, *query) result, error) {
	name := r.PathValue("name")
	choose, err := parseChoice(paramsOf(r).get("choose"))
	if err != nil {
		return nil, err
	}
	return func(v View, q *query) result {
		mine := func(reg *ServiceRegistration) bool { return q.inNamespace(reg.Namespace) && reg.ServiceName == name }
		return pageOfRegistrations(q, choose.of(registrationsIn(v, v.Allocs(), mine)))
	}, nil
}

// choice selects a few instances of a service: the same ones for the same key as long
// as they exist, so that clients with different keys are spread over all instances.
type choice struct {
	number int // 0 means all
	key    string
}

func parseChoice(text string) (choice, error) {
	if text == "" {
		return choice{}, nil
	}
	number, key, ok := strings.Cut(text, "|")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || strings.Contains(key, "|") {
		return choice{}, fail(http.StatusBadRequest, "failed to choose services: Parameter for choose must be in form '<number>|<key>'")
	}
	return choice{number: n, key: key}, nil
}

// of uses rendezvous hashing: an instance that comes or goes affects only the choices
// that contain it.
func (c choice) of(list []*ServiceRegistration) []*ServiceRegistration {
	if c.number == 0 || len(list) <= c.number {
		return list
	}
	weight := func(reg *ServiceRegistration) string {
		sum := sha256.Sum256([]byte(c.key + "|" + reg.ID))
		return string(sum[:])
	}
	slices.SortFunc(list, func(a, b *ServiceRegistration) int { return strings.Compare(weight(a), weight(b)) })
	return list[:c.number]
}

func jobServices(v View, q *query) result {
	allocs := v.AllocsByJob(q.namespace, q.r.PathValue("id"))
	return pageOfRegistrations(q, registrationsIn(v, slices.Values(allocs), nil))
}

func allocServices(v View, q *query) result {
	a := v.AllocByID(q.r.PathValue("id"))
	if a == nil {
		return failed(fail(http.StatusNotFound, "alloc not found"))
	}
	return pageOfRegistrations(q, registrations(v, a))
}
