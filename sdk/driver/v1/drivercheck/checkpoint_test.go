// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// counters is a driver of the checks' counter: its checkpoint is the number to which a task
// has counted. Each field is a defect.
type counters struct {
	driver.Driver
	forgets, public, consumes, runsOn, deaf, starts, anyDir, unpaused bool

	mu      sync.Mutex
	outputs map[string]string // by task
}

func (c *counters) StartTask(ctx context.Context, config *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	c.mu.Lock()
	c.outputs[config.ID] = config.Logs.StdoutPath + ".0"
	c.mu.Unlock()
	return c.Driver.StartTask(ctx, config)
}

func (c *counters) PauseTask(ctx context.Context, id string) error {
	return c.Driver.(driver.Pauser).PauseTask(ctx, id)
}

func (c *counters) ResumeTask(ctx context.Context, id string) error {
	return c.Driver.(driver.Pauser).ResumeTask(ctx, id)
}

const stateFile = "count"

func (c *counters) CheckpointTask(ctx context.Context, id, dir string) error {
	if err := c.PauseTask(ctx, id); err != nil {
		return err
	}
	c.mu.Lock()
	output := c.outputs[id]
	c.mu.Unlock()
	last := []byte("0")
	var before []byte
	for { // until what was printed has reached the file
		body, err := os.ReadFile(output)
		if err != nil {
			return errors.Join(err, c.ResumeTask(ctx, id))
		}
		lines := bytes.Split(body, []byte("\n"))
		if len(lines) > 1 {
			last = lines[len(lines)-2]
		}
		if bytes.Equal(before, body) {
			break
		}
		before = body
	}
	mode := fs.FileMode(0o600)
	if c.public {
		mode = 0o644
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), last, mode); err != nil {
		if c.unpaused {
			return err
		}
		return errors.Join(err, c.ResumeTask(ctx, id))
	}
	if c.runsOn {
		return c.ResumeTask(ctx, id)
	}
	return nil
}

func (c *counters) RestoreTask(ctx context.Context, config *driver.TaskConfig, dir string) (*driver.Handle, *driver.NetworkOverride, error) {
	count, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		if !c.anyDir {
			return nil, nil, errdefs.InvalidArgumentf("no checkpoint: %w", err)
		}
		count = []byte("0")
	}
	if c.forgets {
		count = []byte("0")
	}
	if c.consumes {
		_ = os.WriteFile(filepath.Join(dir, stateFile), append(count, '\n'), 0o600)
	}
	at := *config
	at.DriverConfig = []byte(strings.Replace(string(config.DriverConfig), "i=0;", "i="+strings.TrimSpace(string(count))+";", 1))
	handle, network, err := c.StartTask(ctx, &at)
	if err == nil && c.deaf {
		err = c.PauseTask(ctx, config.ID)
	}
	if c.starts && handle != nil {
		handle.TaskID = "another"
	}
	return handle, network, err
}

func TestEachDefectOfACheckpointerIsFound(t *testing.T) {
	behind := shelldriver.New("shell")
	outputs := map[string]string{}
	try := func(name string, c *counters) conformance.Result {
		c.Driver, c.outputs = behind, outputs
		return check(t, name, subject(func(driver.Driver) driver.Driver { return c }))
	}
	for _, name := range []string{"checkpoint-restores", "checkpoint-holds"} {
		switch r := try(name, &counters{}); r.Outcome {
		case conformance.Skipped:
			t.Skip(r.Reason)
		case conformance.Failed:
			t.Fatalf("without a defect %s said %+v", name, r)
		}
	}
	for what, c := range map[string]struct {
		check string
		d     *counters
	}{
		"begins anew":                 {"checkpoint-restores", &counters{forgets: true}},
		"others may read it":          {"checkpoint-restores", &counters{public: true}},
		"changes the checkpoint":      {"checkpoint-restores", &counters{consumes: true}},
		"the restored task is paused": {"checkpoint-restores", &counters{deaf: true}},
		"handle of another task":      {"checkpoint-restores", &counters{starts: true}},
		"runs on":                     {"checkpoint-holds", &counters{runsOn: true}},
		"starts without a checkpoint": {"checkpoint-holds", &counters{anyDir: true}},
		"held by a failure":           {"checkpoint-holds", &counters{unpaused: true}},
	} {
		if bad := try(c.check, c.d); bad.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, bad)
		}
	}
}
