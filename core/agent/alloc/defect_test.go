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
			panic("the driver's side is confused")
		}
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		b.run(newAlloc(task))
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "because of a defect of Drover: the driver's side is confused")
	})
}
