// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/schema"
)

// finding is a reason why a machine cannot start with its config on this node.
type finding struct {
	path string
	err  error // its text begins with the path
}

// check returns everything that is wrong with a complete config, whatever the task's
// directory contains.
func (c *taskConfig) check(agent agentConfig) (found []finding) {
	_, emulator := find(c.Emulator, agent.EmulatorsAllowlist)
	_, args := parseArgs(c.Args, agent.ArgsAllowlist)
	for _, f := range []finding{
		{"config.image_path", c.checkImagePath()}, {"config.accelerator", c.checkAccelerator()}, {"config.machine_type", c.checkMachineType()},
		{"config.drive_interface", c.checkDriveInterface()}, {"config.emulator", emulator}, {"config.args", args},
	} {
		if f.err != nil {
			found = append(found, f)
		}
	}
	return found
}

// ValidateTask implements driver.Validator.
func (d *Driver) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	var c taskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, err
	}
	c.complete()
	agent, _ := d.agent.Get()
	var out []driver.Diagnostic
	for _, f := range c.check(agent) {
		summary, cure, _ := strings.Cut(strings.TrimPrefix(f.err.Error(), f.path+": "), "; ")
		out = append(out, driver.Diagnostic{Path: f.path, Severity: driver.SeverityError, Summary: summary, Cure: cure})
	}
	return out, nil
}

func (c *taskConfig) checkImagePath() error {
	if c.ImagePath == "" {
		return errors.New("config.image_path: is empty; name a disk image, such as local/disk.qcow2")
	}
	return nil
}

func (c *taskConfig) checkAccelerator() error {
	if c.Accelerator != acceleratorTCG && c.Accelerator != acceleratorKVM {
		return fmt.Errorf("config.accelerator: %q is neither %s nor %s", c.Accelerator, acceleratorTCG, acceleratorKVM)
	}
	return nil
}

func (c *taskConfig) checkMachineType() error {
	if c.MachineType != "" && !machineName.MatchString(c.MachineType) {
		return fmt.Errorf("config.machine_type: %q is not a machine type such as pc or q35", c.MachineType)
	}
	return nil
}

func (c *taskConfig) checkDriveInterface() error {
	if !slices.Contains(driveInterfaces, c.DriveInterface) {
		return fmt.Errorf("config.drive_interface: %q is none of %s", c.DriveInterface, strings.Join(driveInterfaces, ", "))
	}
	return nil
}
