// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

func TestASystemRollOutStopsNothingMoreOnceOneOfItsAllocsHasFailed(t *testing.T) {
	b := rollout(t)
	b.Job.TaskGroups[0].Update.MaxParallel = 2
	b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
	b.Allocs[1].DesiredStatus = model.AllocDesiredStatusStop
	first := b.alloc("b1", 0, "n1")
	first.DeploymentID = b.Deployment.ID
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v1 on n2 after a2 (update)")
	first.ClientStatus = model.AllocClientStatusFailed // the deployment has not been told yet
	expect(t, reconcile.System(b.Input, b.nodeList()))
}
