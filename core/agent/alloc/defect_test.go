// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

func TestAStepThatPanicsCostsItsTaskAndNotTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = func(context.Context, *driver.TaskConfig) error {
			var none map[string]int
			none["x"] = 1
			return nil
		}
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		b.run(newAlloc(task))
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "because of a defect of Drover: assignment to entry in nil map")
	})
}
