// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func TestAJobThatIsStoppedWhileItStartsLeavesNoProcess(t *testing.T) {
	a := newAgent(t).start()
	for i := range 30 {
		id := fmt.Sprintf("flash-%d", i)
		a.run(shell(id, "service", 3, "", "exec sleep 600"))
		a.eventually(5*time.Second, "placed", func() bool { return len(a.allocs(id, "")) == 3 })
		if i%2 == 0 {
			a.eventually(5*time.Second, "one runs", func() bool { return len(a.allocs(id, model.AllocClientStatusRunning)) > 0 })
		}
		if _, err := a.DeregisterJob(a.ctx(), id, &api.JobDeregisterRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	a.eventually(10*time.Second, "no task is left", func() bool { return len(a.processes("sleep 600")) == 0 })
}
