// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"context"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/schema"
)

// taskConfig is the config block of a task.
type taskConfig struct {
	Script string `json:"script"`
}

// parse reads a config block and says what is wrong with it. StartTask uses it too, so both
// decide the same.
func parse(config []byte) (c taskConfig, found []driver.Diagnostic, err error) {
	if err := schema.Unmarshal(config, &c); err != nil {
		return c, nil, err
	}
	if strings.TrimSpace(c.Script) == "" {
		found = append(found, driver.Diagnostic{
			Path: "config.script", Severity: driver.SeverityError, Summary: "is empty", Cure: "write what /bin/sh should run",
		})
	}
	return c, found, nil
}

// ValidateTask implements driver.Validator.
func (d *Driver) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	_, found, err := parse(task.DriverConfig)
	return found, err
}
