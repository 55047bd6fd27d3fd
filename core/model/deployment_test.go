// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestAGroupIsDoneWhenItsCountIsHealthyAndItsCanariesArePromoted(t *testing.T) {
	for name, c := range map[string]struct {
		group model.DeploymentState
		done  bool
	}{
		"nothing healthy":        {model.DeploymentState{DesiredTotal: 1}, false},
		"all healthy":            {model.DeploymentState{DesiredTotal: 1, HealthyAllocs: 1}, true},
		"no count":               {model.DeploymentState{}, true},
		"canaries wait":          {model.DeploymentState{DesiredTotal: 1, DesiredCanaries: 1, HealthyAllocs: 2}, false},
		"promoted":               {model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, HealthyAllocs: 2, Promoted: true}, true},
		"promoted, not full yet": {model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, HealthyAllocs: 1, Promoted: true}, false},
		// The promotion has stopped the second canary: it must not be waited for.
		"more canaries than its count": {model.DeploymentState{DesiredTotal: 1, DesiredCanaries: 2, HealthyAllocs: 1, Promoted: true}, true},
	} {
		if got := c.group.Done(); got != c.done {
			t.Errorf("%s: done %t, want %t", name, got, c.done)
		}
		d := &model.Deployment{TaskGroups: map[string]*model.DeploymentState{"g": &c.group, "done": {}}}
		if got := d.Done(); got != c.done {
			t.Errorf("%s: the deployment is done: %t, want %t", name, got, c.done)
		}
	}
}

func TestADeploymentRevertsToTheNewestStableVersionBeforeIt(t *testing.T) {
	versions := []*model.Job{{Version: 5, Stable: true}, {Version: 4, Stable: true}, {Version: 3}, {Version: 2, Stable: true}, {Version: 1, Stable: true}}
	for of, want := range map[uint64]uint64{5: 4, 4: 2, 3: 2, 2: 1} {
		if got := (&model.Deployment{JobVersion: of}).RevertTarget(versions); got == nil || got.Version != want {
			t.Errorf("of version %d: %+v, want version %d", of, got, want)
		}
	}
	if got := (&model.Deployment{JobVersion: 1}).RevertTarget(versions); got != nil {
		t.Errorf("of the first version: %+v", got)
	}
}
