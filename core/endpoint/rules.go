// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// registrationOpen refuses what would make or change a job while operators have
// switched that off. What runs goes on, and periodic jobs are launched.
func (e *Endpoint) registrationOpen() error {
	if e.Store.View().SchedulerConfig().RejectJobRegistration {
		return errdefs.PermissionDeniedf("Permission denied: the registration of jobs is switched off; operator scheduler set-config -reject-job-registration=false switches it on")
	}
	return nil
}

// nameNodePool gives a draft that names no node pool the default of its namespace.
func (e *Endpoint) nameNodePool(draft *jobspec.Draft) {
	if draft.NodePool != nil && *draft.NodePool != "" {
		return
	}
	name := model.DefaultNamespace
	if draft.Namespace != nil && *draft.Namespace != "" {
		name = *draft.Namespace
	}
	if ns := e.Store.View().NamespaceByName(name); ns != nil {
		pool := ns.DefaultNodePool()
		draft.NodePool = &pool
	}
}

// admitByNamespace refuses a job that breaks the rules of its namespace. One that
// is to stop breaks none.
func (e *Endpoint) admitByNamespace(job *model.Job) error {
	ns := e.Store.View().NamespaceByName(job.Namespace)
	if ns == nil || job.Stop {
		return nil
	}
	if err := ns.CheckJob(job); err != nil {
		return errdefs.New(errdefs.InvalidArgument, err)
	}
	return nil
}
