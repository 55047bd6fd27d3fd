// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

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

func TestASystemRollOutWaitsForAnUnhealthyAllocOfANodeThatIsAway(t *testing.T) {
	b := rollout(t)
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour}
	b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
	b.Allocs[1].DesiredStatus = model.AllocDesiredStatusStop
	first := b.alloc("b1", 0, "n1")
	first.DeploymentID, first.ClientStatus = b.Deployment.ID, model.AllocClientStatusUnknown
	first.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now}}
	b.nodes["n1"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v1 on n2 after a2 (update)")
	no := false
	first.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &no}
	expect(t, reconcile.System(b.Input, b.nodeList()))
}
