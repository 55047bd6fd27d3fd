// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestAJobThatIsStoppedWhileItStartsLeavesNoProcess(t *testing.T) {
	a := newAgent(t).start()
	for i := range 30 {
		id := fmt.Sprintf("flash-%d", i)
		a.Run(harness.Shell(id, "service", 3, "", "exec sleep 600"))
		a.Eventually(5*time.Second, "placed", func() bool { return len(a.Allocs(id, "")) == 3 })
		if i%2 == 0 {
			a.Eventually(5*time.Second, "one runs", func() bool { return len(a.Allocs(id, model.AllocClientStatusRunning)) > 0 })
		}
		if _, err := a.DeregisterJob(a.Context(), id, &api.JobDeregisterRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	a.Eventually(10*time.Second, "no task is left", func() bool { return len(a.Processes("sleep 600")) == 0 })
}
