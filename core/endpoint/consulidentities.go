// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import "github.com/drover-project/drover/core/model"

// ConsulIdentities are the identities that services of a Consul cluster, and tasks that use it, get
// if they have none of their own; nil means none.
type ConsulIdentities struct{ Service, Task *model.WorkloadIdentity }

// addIdentities gives the services and tasks of a job the identities with which they log in at
// Consul. They are part of the job, so that everybody sees them.
func (e *Endpoint) addIdentities(job *model.Job) {
	for _, tg := range job.TaskGroups {
		for _, s := range tg.Services {
			e.addServiceIdentity(tg, nil, s)
		}
		for _, t := range tg.Tasks {
			for _, s := range t.Services {
				e.addServiceIdentity(tg, t, s)
			}
			e.addTaskIdentity(tg, t)
		}
	}
}

func (e *Endpoint) addServiceIdentity(tg *model.TaskGroup, t *model.Task, s *model.Service) {
	cluster := s.Cluster
	if cluster == "" || cluster == "default" {
		cluster = tg.ConsulCluster(t)
	}
	own := e.Consul[cluster].Service
	if s.Identity != nil || s.Provider == "nomad" || own == nil {
		return
	}
	s.Identity = copyIdentity(own)
	task := ""
	if t != nil {
		task = t.Name
	}
	s.NameIdentity(task)
}

// addTaskIdentity gives a task an identity if it has a consul block, or its group has one.
func (e *Endpoint) addTaskIdentity(tg *model.TaskGroup, t *model.Task) {
	cluster := tg.ConsulCluster(t)
	own := e.Consul[cluster].Task
	if own == nil || t.Consul == nil && tg.Consul == nil || t.IdentityByName(model.ConsulIdentity(cluster)) != nil {
		return
	}
	id := copyIdentity(own)
	id.Name = model.ConsulIdentity(cluster)
	t.Identities = append(t.Identities, id)
}

func copyIdentity(id *model.WorkloadIdentity) *model.WorkloadIdentity {
	out := *id
	out.Audience = append([]string(nil), id.Audience...)
	out.ExtraClaims = append([]string(nil), id.ExtraClaims...)
	return &out
}
