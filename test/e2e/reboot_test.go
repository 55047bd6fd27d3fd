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
)

// onMachine makes the agent see another id of the boot: the content of the
// file boot_id in its folder.
func (a *agent) onMachine() {
	a.t.Helper()
	if os.Geteuid() != 0 {
		a.t.Skip("another boot id needs a mount, which needs root")
	}
	a.wrap = []string{"unshare", "--mount", "/bin/sh", "-ec",
		`mount --bind "$0" /proc/sys/kernel/random/boot_id; exec "$@"`, a.dir + "/boot_id"}
}

// boot is the machine's next start.
func (a *agent) boot(id string) {
	a.t.Helper()
	a.killAll()
	<-a.done
	a.write("boot_id", 0o444, id+"\n")
	a.start()
}

// saidToRun waits until done holds and returns, of the allocs of which an
// event after the index tells, whether one shows a live task.
func (a *agent) saidToRun(after uint64, done func() bool) map[string]bool {
	a.t.Helper()
	a.eventually(30*time.Second, "the allocs are over", done)
	ctx, cancel := context.WithTimeout(a.ctx(), 2*time.Second) // a stream has no end
	defer cancel()
	out := map[string]bool{}
	err := a.Events(ctx, []string{"Allocation:*"}, 1, func(b *api.EventBatch) error {
		for _, e := range b.Events {
			var p struct {
				Allocation struct {
					ID         string
					TaskStates map[string]*model.TaskState
				}
			}
			body, err := json.Marshal(e.Payload)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(body, &p); err != nil {
				return err
			}
			for _, s := range p.Allocation.TaskStates {
				if b.Index <= after { // from before: servers read their log again
					continue
				}
				out[p.Allocation.ID] = out[p.Allocation.ID] || s.State == model.TaskStateRunning
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		a.t.Fatal(err)
	}
	return out
}

// After a reboot, and after everything of a node was killed within one boot, work
// that must not start again is failed and is never said to run meanwhile; the other
// is started again, once.
func TestAfterARebootNothingIsSaidToRunThatDoesNot(t *testing.T) {
	for name, next := range map[string]string{
		"reboot":             "22222222-2222-4222-8222-222222222222",
		"all of it is ended": "11111111-1111-4111-8111-111111111111",
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.onMachine()
			a.write("boot_id", 0o444, "11111111-1111-4111-8111-111111111111\n")
			a.start()
			a.run(shell("web", "service", 3, "restart {\n attempts = 3\n delay = \"100ms\"\n interval = \"1h\"\n mode = \"fail\"\n}\n", "exec sleep 601"))
			a.run(shell("work", "batch", 2, onlyOnce, "exec sleep 601"))
			web, work := a.await("web", model.AllocClientStatusRunning, 3), a.await("work", model.AllocClientStatusRunning, 2)
			before := a.pids(web)
			_, meta, err := a.JobAllocations(a.ctx(), "work", true, nil)
			if err != nil {
				t.Fatal(err)
			}
			a.boot(next)
			said := a.saidToRun(meta.Index, func() bool { return len(a.allocs("work", model.AllocClientStatusFailed)) == 2 })
			for _, x := range work {
				if ran, told := said[x.ID]; !told || ran {
					t.Errorf("alloc %s of a task that was gone: told %t, said to run %t", x.ID, told, ran)
				}
			}
			a.eventually(20*time.Second, "the services run again", func() bool { return len(a.processes("sleep 601")) == 3 })
			again := a.await("web", model.AllocClientStatusRunning, 3)
			for _, x := range again {
				if _, same := before[x.ID]; !same {
					t.Errorf("alloc %s is another: tasks are restarted where they were", x.ID)
				}
			}
			a.pids(again)
		})
	}
}
