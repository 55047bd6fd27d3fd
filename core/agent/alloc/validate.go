// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// validate makes the driver check the config, in which all variables are replaced. A config
// with errors fails the task for good, with all errors in one event. If the driver cannot
// answer, the task is started.
func (p *preparation) validate(ctx context.Context, config *driver.TaskConfig) error {
	v, ok := p.driver.(driver.Validator)
	if !ok {
		return nil
	}
	found, err := v.ValidateTask(ctx, &driver.TaskDraft{DriverConfig: config.DriverConfig})
	if err != nil {
		if !errdefs.IsUnimplemented(err) && ctx.Err() == nil {
			p.logger.Warn("the driver could not check the task's config; the task is started without", "task", p.name, "driver", p.task.Driver, "error", err)
		}
		return nil
	}
	if p.run == 1 { // a restart has the same ones
		p.warn(found)
	}
	if err := driver.Refusal(found); err != nil {
		return &stepError{task.InValidation, fmt.Errorf("config of task %q for driver %q: %w", p.name, p.task.Driver, err)}
	}
	return nil
}

// maxWarnings is how many warnings of a driver become events: a task keeps few events.
const maxWarnings = 3

func (p *preparation) warn(found []driver.Diagnostic) {
	told := 0
	for _, d := range found {
		if d.Severity == driver.SeverityError {
			continue
		}
		if told++; told > maxWarnings {
			continue
		}
		p.note(p.name, model.TaskEvent{Type: model.TaskDriverMessage, Message: "warning: " + d.String(), DriverMessage: d.String()})
	}
	if told > maxWarnings {
		p.note(p.name, model.TaskEvent{Type: model.TaskDriverMessage, Message: fmt.Sprintf("%d more warnings of the driver are not shown", told-maxWarnings)})
	}
}
