// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// onMachine makes the agent read its boot id from the file boot_id in its directory.
func (a *agent) onMachine() {
	a.T.Helper()
	if os.Geteuid() != 0 {
		a.T.Skip("another boot id needs a mount, which needs root")
	}
	a.Wrap = []string{"unshare", "--mount", "/bin/sh", "-ec",
		`mount --bind "$0" /proc/sys/kernel/random/boot_id; exec "$@"`, a.Dir + "/boot_id"}
}

// boot simulates a reboot.
func (a *agent) boot(id string) {
	a.T.Helper()
	a.KillAll()
	<-a.Done
	a.Write("boot_id", 0o444, id+"\n")
	a.start()
}

// saidToRun reads events after an index until all of the allocs have failed, and
// returns for each whether an event reported a running task.
func (a *agent) saidToRun(after uint64, allocs []*model.AllocListStub) map[string]bool {
	a.T.Helper()
	ctx, cancel := context.WithCancel(a.Context()) // the stream never ends
	defer cancel()
	out, left := map[string]bool{}, map[string]bool{}
	for _, x := range allocs {
		out[x.ID], left[x.ID] = false, true
	}
	err := a.Events(ctx, []string{"Allocation:*"}, 1, func(b *api.EventBatch) error {
		for _, e := range b.Events {
			var p struct {
				Allocation struct {
					ID           string
					ClientStatus string
					TaskStates   map[string]*model.TaskState
				}
			}
			body, err := json.Marshal(e.Payload)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(body, &p); err != nil {
				return err
			}
			x := p.Allocation
			if _, asked := out[x.ID]; !asked || b.Index <= after { // another one, or an old event: servers replay their log
				continue
			}
			for _, s := range x.TaskStates {
				out[x.ID] = out[x.ID] || s.State == model.TaskStateRunning
			}
			if x.ClientStatus == model.AllocClientStatusFailed {
				delete(left, x.ID)
			}
		}
		if len(left) == 0 {
			cancel()
		}
		return nil
	})
	if len(left) != 0 {
		a.T.Fatalf("no event says that %v have failed: %v", left, err)
	}
	return out
}

// After a reboot, and after all processes of a node were killed without one, allocs
// that must not restart fail and are never reported as running; the others are
// restarted once.
func TestAfterARebootNothingIsSaidToRunThatDoesNot(t *testing.T) {
	for name, next := range map[string]string{
		"reboot":             "22222222-2222-4222-8222-222222222222",
		"all of it is ended": "11111111-1111-4111-8111-111111111111",
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.onMachine()
			a.Write("boot_id", 0o444, "11111111-1111-4111-8111-111111111111\n")
			a.start()
			a.Run(harness.Shell("web", "service", 3, "restart {\n attempts = 3\n delay = \"100ms\"\n interval = \"1h\"\n mode = \"fail\"\n}\n", "exec sleep 601"))
			a.Run(harness.Shell("work", "batch", 2, harness.OnlyOnce, "exec sleep 601"))
			web, work := a.Await("web", model.AllocClientStatusRunning, 3), a.Await("work", model.AllocClientStatusRunning, 2)
			before := a.PIDs(web)
			_, meta, err := a.JobAllocations(a.Context(), "work", true, nil)
			if err != nil {
				t.Fatal(err)
			}
			a.boot(next)
			for id, ran := range a.saidToRun(meta.Index, work) {
				if ran {
					t.Errorf("alloc %s of a task that was gone is said to run", id)
				}
			}
			a.Await("work", model.AllocClientStatusFailed, 2)
			a.Eventually(20*time.Second, "the services run again", func() bool { return len(a.Processes("sleep 601")) == 3 })
			again := a.Await("web", model.AllocClientStatusRunning, 3)
			for _, x := range again {
				if _, same := before[x.ID]; !same {
					t.Errorf("alloc %s is another: tasks are restarted where they were", x.ID)
				}
			}
			a.PIDs(again)
		})
	}
}
