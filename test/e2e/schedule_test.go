// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// window is a schedule that is open now and for years, or closed but for one second of them.
func window(open bool) string {
	start, end := "* * * * * * *", "0 0 29 2 *"
	if !open {
		start, end = end, start
	}
	return "schedule {\n cron {\n start = \"" + start + "\"\n end = \"" + end + "\"\n }\n }"
}

func TestTasksFollowTheirSchedulesAndTheWordsOfOperatorsOverAKillOfTheAgent(t *testing.T) {
	a := newAgent(t).start()
	a.Run(job("shop", "service", part("day", "exec sleep 1000", window(true)), part("never", "exec sleep 1000", window(false))))
	id := a.Await("shop", model.AllocClientStatusRunning, 1)[0].ID
	states := func(want string) {
		t.Helper()
		a.Eventually(30*time.Second, "the tasks are "+want, func() bool {
			detail, _, err := a.Allocation(a.Context(), id, nil)
			if err != nil || detail.TaskStates["day"] == nil || detail.TaskStates["never"] == nil {
				return false
			}
			day, never := detail.TaskStates["day"], detail.TaskStates["never"]
			return day.State+" "+day.Paused+"/"+never.State+" "+never.Paused == want
		})
	}
	states("running /pending scheduled_pause")
	a.deployed("shop", 0, model.DeploymentStatusSuccessful)

	a.Must("alloc", "pause", id, "day")
	states("pending force_pause/pending scheduled_pause")
	a.Kill()
	a.Start()
	states("pending force_pause/pending scheduled_pause")
	if out := a.Must("alloc", "status", id); !strings.Contains(out, "Schedule: it is paused by an operator") {
		t.Errorf("alloc status:\n%s", out)
	}
	a.Must("alloc", "pause", "-state=run", id, "never")
	states("pending force_pause/running force_run")
	a.Must("alloc", "pause", "-state=scheduled", id)
	states("running /pending scheduled_pause")
	if out := a.Must("alloc", "pause", "-status", "-json", id, "never"); !strings.Contains(out, `"State": "scheduled"`) || !strings.Contains(out, `"ScheduleState": "scheduled_pause"`) {
		t.Errorf("alloc pause -status: %s", out)
	}
	if detail, _, err := a.Allocation(a.Context(), id, nil); err != nil || detail.TaskStates["day"].Restarts != 0 || detail.TaskStates["day"].Failed {
		t.Errorf("%+v, %v", detail.TaskStates["day"], err)
	}
}
