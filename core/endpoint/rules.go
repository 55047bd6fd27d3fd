// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"github.com/drover-project/drover/core/api"
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

// queueOpen refuses one more evaluation of a job whose lane is full, before anything is
// written: the evaluation of an acknowledged write is never lost. The caller calls release
// when its write has ended. What ends work is never refused.
func (e *Endpoint) queueOpen(job *model.Job) (release func(), err error) {
	if e.Admit == nil || job.Stop {
		return func() {}, nil
	}
	return e.Admit(job.Namespace, job.NodePool)
}

// QueueLanes returns the lanes of the queue of evaluations.
func (e *Endpoint) QueueLanes() []*api.QueueLane {
	if e.Lanes == nil {
		return []*api.QueueLane{}
	}
	return e.Lanes()
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
