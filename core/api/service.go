// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/core/state"
)

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

func listServices(v View, q *query) result {
	found := map[string]map[string]map[string]bool{} // namespace, service, tag
	for r := range v.Services(q.stateNamespace()) {
		ns := found[r.Namespace]
		if ns == nil {
			ns = map[string]map[string]bool{}
			found[r.Namespace] = ns
		}
		tags := ns[r.ServiceName]
		if tags == nil {
			tags = map[string]bool{}
			ns[r.ServiceName] = tags
		}
		for _, t := range r.Tags {
			tags[t] = true
		}
	}
	p := page[*NamespaceServices]{
		items: func(yield func(*NamespaceServices) bool) {
			for ns, list := range found {
				group := &NamespaceServices{Namespace: ns}
				for _, name := range slices.Sorted(maps.Keys(list)) {
					group.Services = append(group.Services, &ServiceStub{ServiceName: name, Tags: append([]string{}, slices.Sorted(maps.Keys(list[name]))...)})
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

func serviceIndex(r *model.ServiceRegistration) uint64 { return r.ModifyIndex }

// showServices shows a page of registrations, ordered by namespace and id.
func showServices(_ View, q *query, list []*model.ServiceRegistration) result {
	choose, err := parseChoice(paramsOf(q.r).get("choose"))
	if err != nil {
		return failed(err)
	}
	p := page[*model.ServiceRegistration]{
		items: slices.Values(choose.of(list)),
		order: func(r *model.ServiceRegistration) order { return order{id: r.Namespace + "." + r.ID} },
	}
	return listOf(q, p, func(r *model.ServiceRegistration) *model.ServiceRegistration { return r })
}

func servicesNamed(v View, q *query) loaded[*model.ServiceRegistration] {
	name := q.r.PathValue("name")
	if q.namespace != "*" {
		return loaded[*model.ServiceRegistration]{rows: v.ServicesByName(q.namespace, name)}
	}
	var out []*model.ServiceRegistration
	for r := range v.Services("") {
		if r.ServiceName == name {
			out = append(out, r)
		}
	}
	return loaded[*model.ServiceRegistration]{rows: out}
}

// serviceKey is the key of the registrations of the service that the path names.
func serviceKey(q *query) []state.Key {
	if q.namespace == "*" {
		return []state.Key{{Table: state.TableServices}}
	}
	return []state.Key{{Table: state.TableServices, By: state.ByService, Value: state.JobKey(q.namespace, q.r.PathValue("name"))}}
}

func checkChoice(r *http.Request) error {
	_, err := parseChoice(paramsOf(r).get("choose"))
	return err
}

// choice selects a few instances of a service, see services.Choose.
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

func (c choice) of(list []*model.ServiceRegistration) []*model.ServiceRegistration {
	if c.number == 0 {
		return list
	}
	return services.Choose(slices.Clone(list), c.number, c.key, func(r *model.ServiceRegistration) string { return r.ID })
}

func servicesOfJob(v View, q *query) loaded[*model.ServiceRegistration] {
	return loaded[*model.ServiceRegistration]{rows: v.ServicesByJob(q.namespace, q.r.PathValue("id"))}
}

// servicesOfJobKey is the key of the registrations of a job.
func servicesOfJobKey(q *query) []state.Key {
	return []state.Key{{Table: state.TableServices, By: state.ByJob, Value: state.JobKey(q.namespace, q.r.PathValue("id"))}}
}

func servicesOfAlloc(v View, q *query) loaded[*model.ServiceRegistration] {
	id := q.r.PathValue("id")
	if v.AllocByID(id) == nil {
		return loaded[*model.ServiceRegistration]{err: fail(http.StatusNotFound, "alloc not found")}
	}
	return loaded[*model.ServiceRegistration]{rows: v.ServicesByAlloc(id)}
}

// deleteService removes a registration of a service.
func (s *Server) deleteService(w http.ResponseWriter, r *http.Request) (any, error) {
	index, err := s.backend.DeleteService(r.Context(), namespaceOf(r), r.PathValue("name"), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	setIndex(w, index)
	return nil, nil
}
