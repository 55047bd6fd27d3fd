// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"context"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Exec is the task driver exec. It runs processes in a sandbox, as user nobody
// unless the task sets a user.
type Exec struct{ isolated }

// NewExec returns the driver. dir is the directory of its supervisor.
func NewExec(dir string) *Exec { return &Exec{newIsolated(dir)} }

// execTaskConfig is the config block of a task.
type execTaskConfig struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	boxConfig
}

// Info implements driver.Driver.
func (d *Exec) Info() driver.Info {
	return driver.Info{
		Name: "exec", Capabilities: isolatedCapabilities(), ConfigSchema: isolatedAgentSchema(),
		TaskConfigSchema: schema.Schema{Attributes: append([]schema.Attribute{
			{Name: "command", Type: schema.String, Required: true, Description: "program, as the task sees it: absolute, in its directory, or in its PATH"},
			{Name: "args", Type: schema.ListString, Description: "arguments"},
			{Name: "init", Type: schema.Bool, Default: true, Description: "run a process 1 that reaps orphans; with false the command itself is process 1, and signals without a handler do nothing"},
		}, isolationSchema()...)},
	}
}

// Fingerprint implements driver.Driver. It sends one fingerprint, because a
// machine's ability to isolate tasks does not change while it runs.
func (d *Exec) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	return d.Fingerprints(ctx, func() (driver.Fingerprint, <-chan struct{}) {
		_, changed := d.agent.Get()
		if why := unavailable(); why != "" {
			return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: why}, changed
		}
		return driver.Fingerprint{Attributes: map[string]string{"driver.exec": "1"}, Health: driver.HealthHealthy, HealthDescription: "Healthy"}, changed
	}), nil
}

// StartTask implements driver.Driver.
func (d *Exec) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	ctx, ended, err := d.Starting(ctx, task.ID)
	if err != nil {
		return nil, nil, err
	}
	defer ended()
	if why := unavailable(); why != "" {
		return nil, nil, errdefs.FailedPreconditionf("start task %q: exec cannot isolate tasks on this node: %s", task.ID, why)
	}
	var c execTaskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, nil, err
	}
	spec, err := d.spec(task, c.boxConfig, c.check)
	if err != nil {
		return nil, nil, err
	}
	spec.Sandbox.Command, spec.Args = c.Command, append([]string{c.Command}, c.Args...)
	handle, err := d.Start(ctx, spec)
	return handle, nil, err
}
