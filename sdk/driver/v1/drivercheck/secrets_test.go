// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// careless is a driver that changes the config of a task, its handle or its error.
type careless struct {
	driver.Driver
	change func(*driver.TaskConfig)
	handle func(*driver.TaskConfig, *driver.Handle)
	fails  func(*driver.TaskConfig, error) error
}

func (c careless) StartTask(ctx context.Context, in *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	config := *in
	if c.change != nil {
		c.change(&config)
	}
	h, n, err := c.Driver.StartTask(ctx, &config)
	if err == nil && c.handle != nil {
		c.handle(in, h)
	}
	if err != nil && c.fails != nil {
		err = c.fails(in, err)
	}
	return h, n, err
}

func TestASecretThatIsLostOrShownIsADefect(t *testing.T) {
	for what, c := range map[string]careless{
		"dropped":      {change: func(t *driver.TaskConfig) { t.SecretEnv = nil }},
		"only secrets": {change: func(t *driver.TaskConfig) { t.Env = map[string]string{"PATH": t.Env["PATH"]} }},
		"Env wins": {change: func(t *driver.TaskConfig) {
			all := driver.Secrets{}
			for name, value := range t.SecretEnv {
				if _, plain := t.Env[name]; !plain {
					all[name] = value
				}
			}
			t.SecretEnv = all
		}},
		"in the handle": {handle: func(t *driver.TaskConfig, h *driver.Handle) {
			var state map[string]any
			_ = json.Unmarshal(h.State, &state)
			state["Environment"] = t.Environment()
			h.State, _ = json.Marshal(state)
		}},
		"in an error": {fails: func(t *driver.TaskConfig, err error) error {
			return errdefs.New(errdefs.ClassOf(err), errdefs.Internalf("start with %v: %w", t.Environment(), err))
		}},
	} {
		r := check(t, "secrets", subject(func(d driver.Driver) driver.Driver { c.Driver = d; return c }))
		if r.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if r := check(t, "secrets", subject(func(d driver.Driver) driver.Driver { return careless{Driver: d} })); r.Outcome != conformance.Passed {
		t.Errorf("without a defect: %+v", r)
	}
}
