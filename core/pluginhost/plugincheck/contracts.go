// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugincheck

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/pluginhost"
	coredriver "github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicecheck"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networkcheck"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrycheck"
	"github.com/drover-project/drover/sdk/schema"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statscheck"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumecheck"
)

// open launches a process that lives as long as the check does.
func (c *checker) open(t *conformance.T) *pluginhost.Opened {
	o, err := c.host.Open(t.Context(), c.opts.Path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(o.Close)
	return o
}

func (c *checker) driver(ctx context.Context, info driver.Info, foreign bool) {
	c.part("driver", info.Name)
	if !c.configFits(ctx, info.Name, info.ConfigSchema) {
		return
	}
	s := drivercheck.Subject{
		Connect: func(t *conformance.T) (driver.Driver, func()) {
			o := c.open(t)
			for _, b := range o.Drivers {
				if b.Info().Name == info.Name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Timeout: c.opts.Timeout, Foreign: foreign, Process: true, Executable: c.opts.Path,
		Task: func(task *driver.TaskConfig) { asTheAgent(task, info.Capabilities.FSIsolation) },
	}
	c.chooseTask(ctx, &s, info)
	if ctx.Err() != nil {
		return // the reason in NoTask would be the interruption
	}
	if s.NoTask != "" { // report the reason once, instead of in every check
		const name, rule = "task-config", "there is a task to check with, and the driver can start it here"
		c.check(name, rule, func() conformance.Result {
			return conformance.Result{Name: name, Rule: rule, Outcome: conformance.Skipped, Reason: s.NoTask}
		})
		s.NoTask = "see task-config"
	}
	for _, check := range drivercheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}

// configFits says once, and not in every check, that there is no config to check with.
func (c *checker) configFits(ctx context.Context, name string, accepts schema.Schema) bool {
	return c.own(ctx, "agent-config", "the agent config to check with fits the schema", func(t *conformance.T) {
		if _, err := accepts.Apply(c.opts.Config); err != nil {
			t.Errorf("%v\ngive what fits with -config FILE -name %s", err, name)
		}
	}).Outcome == conformance.Passed
}

// asTheAgent changes a task as the agent does for a driver with that isolation.
func asTheAgent(task *driver.TaskConfig, isolation driver.FSIsolation) {
	task.AllocID = uuid.NewString()
	if isolation == driver.FSIsolationNone || isolation == "" {
		return
	}
	task.Env["NOMAD_TASK_DIR"] = "/local"
	if isolation == driver.FSIsolationImage {
		delete(task.Env, "PATH") // it is the image's
	}
	for _, sub := range []string{"local", "secrets", "tmp"} {
		// #nosec: for tasks of any user; a failure shows in the checks of what tasks write
		_ = os.Chmod(filepath.Join(task.TaskDir, sub), 0o777)
	}
}

// chooseTask sets what tasks the checks start, or why none.
func (c *checker) chooseTask(ctx context.Context, s *drivercheck.Subject, info driver.Info) {
	if reason := c.unusable(ctx, info); reason != "" {
		s.NoTask = reason
		return
	}
	if c.opts.Task == nil {
		s.Script, s.Forever, s.NoTask = suggest(info.TaskConfigSchema)
		return
	}
	if !c.opts.Scripted {
		fixed, err := c.opts.Task("")
		if s.Forever = fixed; err != nil {
			s.NoTask = err.Error()
		}
		return
	}
	s.Script = func(script string) map[string]any {
		config, err := c.opts.Task(script)
		if err != nil { // it was read once before, with another script
			return map[string]any{"the task config cannot be read": err.Error()}
		}
		return config
	}
}

// unusable says why the driver can start no task here, or "".
func (c *checker) unusable(ctx context.Context, info driver.Info) string {
	applied, err := info.ConfigSchema.Apply(c.opts.Config)
	if err != nil {
		return err.Error()
	}
	body, err := json.Marshal(applied)
	if err != nil {
		return err.Error()
	}
	var print coredriver.Fingerprint
	r := c.run(ctx, "", "", func(t *conformance.T) {
		for _, b := range c.open(t).Drivers {
			if b.Info().Name != info.Name {
				continue
			}
			if err := b.SetConfig(t.Context(), body); err != nil {
				if t.Context().Err() != nil {
					t.Fatalf("it has not answered its agent config in the check's time")
				}
				t.Fatalf("it refuses its agent config: %v", err)
			}
			prints, err := b.Fingerprint(t.Context())
			if err != nil {
				t.Fatalf("it cannot be fingerprinted: %v", err)
			}
			var there bool
			if print, there = conformance.Receive(t, prints, "the first fingerprint"); !there {
				t.Fatalf("its stream of fingerprints ended before the first one")
			}
		}
	})
	switch {
	case len(r.Problems) > 0:
		return strings.Join(r.Problems, "; ")
	case print.Health != coredriver.HealthHealthy:
		return fmt.Sprintf("the driver says that it is %s here: %s", print.Health, print.HealthDescription)
	}
	return ""
}

// suggest finds a harmless task in a schema: a shell where there is a command, or
// a task without any config.
func suggest(s schema.Schema) (script func(string) map[string]any, forever map[string]any, none string) {
	types := map[string]schema.Type{}
	var required []string
	for _, a := range s.Attributes {
		types[a.Name] = a.Type
		if a.Required {
			required = append(required, "config."+a.Name)
		}
	}
	only := func(names ...string) bool {
		return !slices.ContainsFunc(required, func(r string) bool { return !slices.Contains(names, strings.TrimPrefix(r, "config.")) })
	}
	switch {
	case types["command"] == schema.String && types["args"] == schema.ListString && only("command", "args"):
		return func(s string) map[string]any { return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}} }, nil, ""
	case types["script"] == schema.String && only("script"):
		return func(s string) map[string]any { return map[string]any{"script": s} }, nil, ""
	case len(required) == 0:
		return nil, map[string]any{}, ""
	}
	return nil, nil, fmt.Sprintf("a task needs %s; give a task config with -task-config, in which ${script} stands for a /bin/sh script", strings.Join(required, ", "))
}

func (c *checker) device(ctx context.Context, name string, accepts schema.Schema, foreign bool) {
	c.part("device", name)
	if !c.configFits(ctx, name, accepts) {
		return
	}
	s := devicecheck.Subject{
		Connect: func(t *conformance.T) (device.Device, func()) {
			o := c.open(t)
			for _, b := range o.Devices {
				if b.Info().Name == name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Timeout: c.opts.Timeout, MayBeAbsent: true, Foreign: foreign,
	}
	for _, check := range devicecheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}

func (c *checker) collector(ctx context.Context, name string, accepts schema.Schema) {
	c.part("collector", name)
	if !c.configFits(ctx, name, accepts) {
		return
	}
	s := statscheck.Subject{
		Connect: func(t *conformance.T) (stats.Collector, func()) {
			o := c.open(t)
			for _, b := range o.Collectors {
				if b.Info().Name == name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Timeout: c.opts.Timeout,
	}
	for _, check := range statscheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}

func (c *checker) network(ctx context.Context, name string, accepts schema.Schema) {
	c.part("network", name)
	if !c.configFits(ctx, name, accepts) {
		return
	}
	s := networkcheck.Subject{
		Connect: func(t *conformance.T) (network.Network, func()) {
			o := c.open(t)
			for _, b := range o.Networks {
				if b.Info().Name == name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Timeout: c.opts.Timeout, MayBeAbsent: true,
	}
	for _, check := range networkcheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}

func (c *checker) registry(ctx context.Context, name string, accepts schema.Schema) {
	c.part("registry", name)
	if !c.configFits(ctx, name, accepts) {
		return
	}
	s := registrycheck.Subject{
		Connect: func(t *conformance.T) (registry.Registry, func()) {
			o := c.open(t)
			for _, b := range o.Registries {
				if b.Info().Name == name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Timeout: c.opts.Timeout, MayBeAbsent: true,
	}
	for _, check := range registrycheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}

// volume checks a storage plugin, with volumes that it makes itself if it can make any.
func (c *checker) volume(ctx context.Context, name string, accepts schema.Schema) {
	c.part("volume", name)
	if !c.configFits(ctx, name, accepts) {
		return
	}
	dir, err := os.MkdirTemp("", "drover-check-")
	if err != nil {
		c.own(ctx, "directory", "there is a directory to publish volumes in", func(t *conformance.T) { t.Fatalf("%v", err) })
		return
	}
	defer os.RemoveAll(dir)
	s := volumecheck.Subject{
		Connect: func(t *conformance.T) (volume.Volume, func()) {
			o := c.open(t)
			for _, b := range o.Volumes {
				if b.Info().Name == name {
					return b, o.Kill
				}
			}
			t.Fatalf("the process does not serve it any more")
			return nil, nil
		},
		Config: c.opts.Config, Dir: dir, Timeout: c.opts.Timeout, MayBeAbsent: true,
	}
	for _, check := range volumecheck.Checks() {
		if ctx.Err() != nil {
			return
		}
		c.check(check.Name, check.Rule, func() conformance.Result { return check.Run(ctx, s) })
	}
}
