// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/schema"
)

// finding is a reason why a task cannot start with its config on this node. Its error has
// the class of a refused start and names the attribute.
type finding struct {
	path string
	err  error
}

// refusal returns the error of the first finding, or nil.
func refusal(task string, found []finding) error {
	if len(found) == 0 {
		return nil
	}
	return errdefs.New(errdefs.ClassOf(found[0].err), fmt.Errorf("task %q: %w", task, found[0].err))
}

func diagnostics(found []finding) []driver.Diagnostic {
	var out []driver.Diagnostic
	for _, f := range found {
		summary, cure, _ := strings.Cut(strings.TrimPrefix(f.err.Error(), f.path+": "), "; ")
		out = append(out, driver.Diagnostic{Path: f.path, Severity: driver.SeverityError, Summary: summary, Cure: cure})
	}
	return out
}

// check returns everything that is wrong with how a task asks to be isolated.
func (c boxConfig) check(agent isolatedAgentConfig) []finding {
	var found []finding
	invalid := func(path string, err error) {
		found = append(found, finding{path, errdefs.New(errdefs.InvalidArgument, err)})
	}
	var refused *isolation.NotAllowedError
	if err := isolation.CheckCapabilities(c.CapDrop); err != nil {
		invalid("config.cap_drop", fmt.Errorf("config.cap_drop: %w", err))
	} else if _, _, err := isolation.Capabilities(agent.AllowCaps, c.CapAdd, c.CapDrop); errors.As(err, &refused) {
		found = append(found, finding{"config.cap_add", errdefs.PermissionDeniedf("config.cap_add: %w on this node; remove them, or let the operator add them to the agent's allow_caps", err)})
	} else if err != nil {
		invalid("config.cap_add", fmt.Errorf("config.cap_add: %w", err))
	}
	if c.WorkDir != "" && !filepath.IsAbs(c.WorkDir) {
		invalid("config.work_dir", fmt.Errorf("config.work_dir: %q is not absolute", c.WorkDir))
	}
	hostPID, err := isHost(c.PIDMode, agent.DefaultPIDMode)
	if err != nil {
		invalid("config.pid_mode", fmt.Errorf("config.pid_mode: %w", err))
	}
	found = append(found, agent.refusedModes(c)...)
	if c.Init != nil && !*c.Init && (hostPID || agent.NoPivotRoot) {
		invalid("config.init", errors.New("config.init: the command can be process 1 only with a private pid namespace (pid_mode = \"private\") and without no_pivot_root in the agent's config"))
	}
	if _, err := isHost(c.IPCMode, agent.DefaultIPCMode); err != nil {
		invalid("config.ipc_mode", fmt.Errorf("config.ipc_mode: %w", err))
	}
	return found
}

// checkProgram returns everything that is wrong with a command and its arguments.
func checkProgram(command string, args []string) []finding {
	var found []finding
	invalid := func(path, why string) {
		found = append(found, finding{path, errdefs.InvalidArgumentf("%s: %s", path, why)})
	}
	const zero = "contains a zero byte, which no program can be given; remove it"
	if command == "" {
		invalid("config.command", "is empty; name the program to run")
	} else if strings.Contains(command, "\x00") {
		invalid("config.command", zero)
	}
	for i, arg := range args {
		if strings.Contains(arg, "\x00") {
			invalid(fmt.Sprintf("config.args[%d]", i), zero)
		}
	}
	return found
}

// check returns everything that is wrong with the config of a task of exec.
func (c execTaskConfig) check(agent isolatedAgentConfig) []finding {
	return append(checkProgram(c.Command, c.Args), c.boxConfig.check(agent)...)
}

// ValidateTask implements driver.Validator.
func (d *Exec) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	var c execTaskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, err
	}
	agent, _ := d.agent.Get()
	return diagnostics(c.check(agent)), nil
}

// ValidateTask implements driver.Validator.
func (d *Java) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	var c javaTaskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, err
	}
	agent, _ := d.agent.Get()
	return diagnostics(c.check(agent)), nil
}

// check returns everything that is wrong with the config of a Java task.
func (c javaTaskConfig) check(agent isolatedAgentConfig) []finding {
	found := c.boxConfig.check(agent)
	if c.JarPath == "" && c.Class == "" {
		err := errdefs.InvalidArgumentf("config.jar_path or config.class must be set: a jar with a main class, or the class to run")
		found = append(found, finding{"config", err})
	}
	return found
}
