// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package sandbox is the driver. Each task is a command that is run by a small
// process of this plugin (see runner.go), so that tasks survive the plugin.
//
// This file describes the driver and starts tasks, process.go has what is the task's
// process, tasks.go implements the rest of the tasks' lifecycle, and streams.go their stats,
// events and exec. Adapt them to your needs.
package sandbox

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/schema"
)

// Name is the driver's name in job files: driver = "NAME".
const Name = "sandbox"

// Driver runs commands.
type Driver struct {
	mu       sync.Mutex
	config   agentConfig
	tasks    map[string]*task     // by TaskConfig.ID
	starting map[string]*starting // starts in progress, by TaskConfig.ID
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver without tasks.
func New() *Driver { return &Driver{tasks: map[string]*task{}, starting: map[string]*starting{}} }

// agentConfig is the agent's plugin "sandbox" { config { } } block.
type agentConfig struct {
	Shell string `json:"shell"`
}

// taskConfig is a task's config block.
type taskConfig struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// check is for rules that a schema cannot express. Its findings refuse a job with the line
// in its file, and a start.
func (c taskConfig) check() (found []driver.Diagnostic) {
	if strings.TrimSpace(c.Command) == "" {
		found = append(found, driver.Diagnostic{
			Path: "config.command", Severity: driver.SeverityError, Summary: "is empty", Cure: "name the program to run",
		})
	}
	return found
}

// ValidateTask tells what is wrong with a config. It may lack what only a start knows.
func (d *Driver) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	var c taskConfig
	err := schema.Unmarshal(task.DriverConfig, &c)
	return c.check(), err
}

// Info returns the driver's name, its capabilities, and the schemas of its two config
// blocks, which the agent and the servers check.
func (d *Driver) Info() driver.Info {
	return driver.Info{
		Name:         Name,
		Capabilities: capabilities(),
		ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "shell", Type: schema.String, Default: "/bin/sh", Description: "must be there for the driver to be healthy"},
		}},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "command", Type: schema.String, Required: true, Description: "the program to run"},
			{Name: "args", Type: schema.ListString, Description: "its arguments"},
		}},
	}
}

// SetConfig is called first, and again whenever the plugin block changes.
func (d *Driver) SetConfig(_ context.Context, config []byte) error {
	var c agentConfig
	if err := schema.Unmarshal(config, &c); err != nil {
		return err
	}
	if !filepath.IsAbs(c.Shell) {
		return errdefs.InvalidArgumentf("shell %q is no absolute path", c.Shell)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	return nil
}

// fingerprintEvery is the interval at which the driver checks for changes.
const fingerprintEvery = 30 * time.Second

// Fingerprint reports immediately and after each change, until ctx ends.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint)
	go func() {
		defer close(out)
		ticker := time.NewTicker(fingerprintEvery)
		defer ticker.Stop()
		var last *driver.Fingerprint
		for {
			if f := d.look(); last == nil || !reflect.DeepEqual(f, *last) {
				select {
				case out <- f:
					last = &f
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (d *Driver) look() driver.Fingerprint {
	d.mu.Lock()
	shell := d.config.Shell
	d.mu.Unlock()
	if why := isolation.Unavailable(); why != "" {
		return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: why}
	}
	if _, err := os.Stat(shell); err != nil {
		return driver.Fingerprint{Health: driver.HealthUnhealthy, HealthDescription: "no shell: " + err.Error()}
	}
	return driver.Fingerprint{
		Health: driver.HealthHealthy, HealthDescription: "Healthy",
		Attributes: map[string]string{"driver." + Name: "1", "driver." + Name + ".shell": shell},
	}
}

// StartTask starts a task and returns the handle with which RecoverTask finds it in
// a later process. A failed start leaves nothing behind.
func (d *Driver) StartTask(ctx context.Context, config *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	var c taskConfig
	if err := schema.Unmarshal(config.DriverConfig, &c); err != nil {
		return nil, nil, err
	}
	if err := driver.Refusal(c.check()); err != nil {
		return nil, nil, err
	}
	box, user, err := sandbox(config)
	if err != nil {
		return nil, nil, err
	}
	ctx, ended, err := d.begin(ctx, config.ID)
	if err != nil {
		return nil, nil, err
	}
	defer ended()
	s := spec{Command: c.Command, Args: c.Args, Box: box, User: user, AllocDir: config.AllocDir, Logs: config.Logs, Cgroup: config.Cgroup}
	for name, value := range config.Env {
		s.Env = append(s.Env, name+"="+value)
	}
	dir := stateDir(config.AllocDir, config.ID)
	t, err := launch(ctx, dir, s)
	if err != nil {
		return nil, nil, err
	}
	d.know(config.ID, t)
	state, err := json.Marshal(t.handle)
	if err != nil {
		return nil, nil, errdefs.Internalf("encode the handle: %w", err)
	}
	return &driver.Handle{TaskID: config.ID, Version: handleVersion, State: state}, nil, nil
}

// RecoverTask adopts a task that an earlier process of this driver started.
func (d *Driver) RecoverTask(_ context.Context, h *driver.Handle) error {
	if h.Version != handleVersion {
		return errdefs.InvalidArgumentf("handle of version %d: this driver reads version %d", h.Version, handleVersion)
	}
	var known handle
	if err := json.Unmarshal(h.State, &known); err != nil {
		return errdefs.InvalidArgumentf("decode the handle: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[h.TaskID] != nil {
		return nil
	}
	t, err := adopt(known)
	if err != nil {
		return err
	}
	d.tasks[h.TaskID] = t
	return nil
}

func (d *Driver) know(id string, t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = t
}

func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
}

// find returns a task by its id.
func (d *Driver) find(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errdefs.NotFoundf("task %q is unknown; start or recover it first", id)
}
