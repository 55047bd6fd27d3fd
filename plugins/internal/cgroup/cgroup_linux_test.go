// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/isolation"
)

// The thread that starts a process enters the group's v1 hierarchies and ends
// shortly afterwards. Killing the group in between must not kill the supervisor.
func TestAGroupThatAThreadOfOursIsStillInIsKilledWithoutUs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups are made by root")
	}
	groups, err := FindCgroups()
	if err != nil {
		t.Fatal(err)
	}
	g, err := groups.Make(fmt.Sprintf("ours.%d.%d", os.Getpid(), time.Now().UnixNano()), Limits{}, nil)
	if err != nil {
		t.Skipf("no cgroups here: %v", err)
	}
	err = isolation.Within(g.Present(), "", func(int) error {
		if g.Dir != "" { // as after its removal, which the thread does not prevent
			if err := os.Remove(g.Dir); err != nil {
				return err
			}
		}
		if pids := g.PIDs(); len(pids) != 0 {
			return fmt.Errorf("the group has the processes %v, we are %d", pids, os.Getpid())
		}
		g.Kill()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); g.Remove() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the group cannot be removed")
		}
	}
}
