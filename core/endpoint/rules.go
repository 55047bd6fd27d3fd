// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// registrationOpen rejects the creation and change of jobs while operators have
// disabled it. Running jobs continue, and periodic jobs are launched.
func (e *Endpoint) registrationOpen() error {
	if e.Store.View().SchedulerConfig().RejectJobRegistration {
		return errdefs.PermissionDeniedf("Permission denied: the registration of jobs is switched off; operator scheduler set-config -reject-job-registration=false switches it on")
	}
	return nil
}

// nameNodePool sets the default node pool of its namespace in a draft that names none.
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

// admitByNamespace rejects a job that breaks the rules of its namespace, unless it is
// to be stopped.
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
