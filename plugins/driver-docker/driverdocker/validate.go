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
	"github.com/moby/moby/api/types/mount"

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
	return append(found, ineffective(c, agent)...), nil
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
	for _, step := range slices.Concat(rights, limits, []func(specInput, *container.HostConfig) error{namespaces, devices, volumeDriver, targets, resolver, portMap}) {
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

// ineffective returns warnings for attributes that have no effect beside others.
func ineffective(c taskConfig, agent agentConfig) []driver.Diagnostic {
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
	if c.Hostname != "" && mode.IsContainer() {
		warn("config.hostname", "has no effect in the network of another container, whose name it has", "remove it")
	}
	if c.Privileged && len(c.CapDrop) > 0 {
		warn("config.cap_drop", "has no effect with privileged = true, which grants every capability", "remove one of the two")
	}
	if c.CPUCFSPeriod != defaultCFSPeriod && !c.CPUHardLimit {
		warn("config.cpu_cfs_period", "has no effect without cpu_hard_limit = true", "set that, or remove it")
	}
	named := func(volume string) bool {
		source, _, _ := strings.Cut(volume, ":")
		return !strings.ContainsRune(source, '/')
	}
	if c.VolumeDriver != "" && agent.Volumes.Enabled && !slices.ContainsFunc(c.Volumes, named) {
		warn("config.volume_driver", "has no effect, since volumes has no volume with a name", "name one, or use driver_config in volume_options of a mount")
	}
	others := func(name string, list []mountBlock) {
		for i, m := range list {
			for _, option := range m.ignored() {
				warn(fmt.Sprintf("config.%s[%d].%s", name, i, option), fmt.Sprintf("has no effect on a mount of type %q", m.Type), "remove it, or change the type")
			}
		}
	}
	others("mount", c.Mount)
	others("mounts", c.Mounts)
	return found
}

// ignored returns the names of the option blocks that are for another type of mount.
func (m mountBlock) ignored() []string {
	var names []string
	for _, o := range []struct {
		set  bool
		name string
		kind mount.Type
	}{
		{m.BindOptions != nil, "bind_options", mount.TypeBind},
		{m.TmpfsOptions != nil, "tmpfs_options", mount.TypeTmpfs},
		{m.VolumeOptions != nil, "volume_options", mount.TypeVolume},
	} {
		if o.set && mount.Type(m.Type) != o.kind {
			names = append(names, o.name)
		}
	}
	return names
}
