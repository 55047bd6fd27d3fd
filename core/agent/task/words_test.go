// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

func TestWhatADriverSaysIsCutToWhatServersTake(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := task.New(t0)
	for range model.MaxTaskEvents {
		s, _ = task.Step(spec(nil), s, task.Note{Event: model.TaskEvent{Message: long, DriverError: long, Details: map[string]string{"k": long}}}, t0)
	}
	told := &model.AllocReport{ID: "a", ClientStatus: "running", Tasks: map[string]*model.TaskReport{"t": {State: "running", Events: s.Report.Events}}}
	if err := told.Validate(); err != nil {
		t.Error(err)
	}
}
