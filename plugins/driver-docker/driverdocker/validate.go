// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ValidateTask implements driver.Validator. It runs the steps with which a start makes the
// configuration of a container, for a task of which only the config is known, so both apply
// the same rules. Rules that depend on the daemon, or on the directory, the ports and the
// resources of a task, are left to the start.
func (d *Driver) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	c, err := readTaskConfig(task.DriverConfig)
	if err != nil {
		return nil, err
	}
	agent, x, _ := d.now()
	if x == nil {
		return nil, errdefs.FailedPreconditionf("the driver has no config yet")
	}
	var found []driver.Diagnostic
	for _, rule := range rules(c, agent) {
		if err := rule(); err != nil {
			found = append(found, diagnostic(err))
		}
	}
	return append(found, ineffective(c)...), nil
}

// diagnostic returns the finding for the error of a step.
func diagnostic(err error) driver.Diagnostic {
	out := driver.Diagnostic{Path: "config", Severity: driver.SeverityError}
	var a *attributeError
	if errors.As(err, &a) {
		out.Path, err = a.path, a.err
		if a.unsure {
			out.Severity = driver.SeverityWarning
		}
	}
	out.Summary, out.Cure, _ = strings.Cut(err.Error(), "; ")
	return out
}

// noDir stands for the directory of an alloc that does not exist yet.
var noDir = filepath.FromSlash("/.drover/no-such-alloc")

// rules returns the steps that need nothing but the config, in a fixed order.
func rules(c taskConfig, agent agentConfig) []func() error {
	in := specInput{
		task:   &driver.TaskConfig{AllocDir: noDir, TaskDir: filepath.Join(noDir, "task")},
		config: c, agent: agent, api: apiWithMac,
		source: func(dir, rel string, _ bool) (string, error) { return filepath.Join(dir, rel), nil },
	}
	host := &container.HostConfig{}
	out := []func() error{
		c.checkImage,
		func() error { _, err := c.pullLimit(agent); return err },
		func() error { _, err := labelsOf(in); return err },
		func() error {
			mode, err := networkMode(in)
			if err == nil {
				_, err = endpoint(in, mode)
			}
			return err
		},
	}
	for _, step := range slices.Concat(rights, limits, []func(specInput, *container.HostConfig) error{namespaces, devices, volumeDriver, resolver, portMap}) {
		out = append(out, func() error { return step(in, host) })
	}
	for i, v := range c.Volumes {
		out = append(out, within(fmt.Sprintf("config.volumes[%d]", i), func() error { return volume(in, v, host) }))
	}
	for i, m := range c.Mount {
		out = append(out, within(fmt.Sprintf("config.mount[%d]", i), func() error { _, err := configMount(in, m); return err }))
	}
	for i, m := range c.Mounts {
		out = append(out, within(fmt.Sprintf("config.mounts[%d]", i), func() error { _, err := configMount(in, m); return err }))
	}
	return out
}

// within gives the errors of a step about one item of a list the path of the item.
func within(path string, step func() error) func() error {
	return func() error {
		err := step()
		var a *attributeError
		if errors.As(err, &a) {
			exact := *a
			exact.path = path
			return &exact
		}
		return err
	}
}

// ineffective returns warnings for attributes without effect in the task's network mode.
func ineffective(c taskConfig) []driver.Diagnostic {
	var found []driver.Diagnostic
	warn := func(path, summary, cure string) {
		found = append(found, driver.Diagnostic{Path: path, Severity: driver.SeverityWarning, Summary: summary, Cure: cure})
	}
	mode := container.NetworkMode(c.NetworkMode)
	if len(c.PortMap) > 0 && mode.IsHost() {
		warn("config.port_map", "has no effect with network_mode = \"host\"", "let the task listen on the ports of the machine, NOMAD_PORT_label")
	}
	if len(c.PortMap) > 0 && mode.IsNone() {
		warn("config.port_map", "has no effect with network_mode = \"none\"", "remove it")
	}
	if len(c.Ports) > 0 && mode.IsNone() {
		warn("config.ports", "has no effect with network_mode = \"none\"", "remove it")
	}
	return found
}
