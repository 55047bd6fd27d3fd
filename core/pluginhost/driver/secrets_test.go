// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// starter keeps the config of the last start.
type starter struct {
	driver.Driver
	keepsApart bool
	got        *driver.TaskConfig
}

func (s *starter) Info() driver.Info {
	return driver.Info{Name: "x", Capabilities: driver.Capabilities{SecretEnv: s.keepsApart}}
}

func (s *starter) StartTask(_ context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	s.got = c
	return &driver.Handle{TaskID: c.ID}, nil, nil
}

func (s *starter) RecoverTask(context.Context, *driver.Handle) error { return nil }

func TestSecretsAreInEnvForADriverThatDoesNotKeepThemApart(t *testing.T) {
	config := &driver.TaskConfig{ID: "t", Env: map[string]string{"A": "1", "B": "plain"}, SecretEnv: driver.Secrets{"B": "secret"}}
	old, current := &starter{}, &starter{keepsApart: true}
	p := driver.NewProxy(old.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute, Start: time.Minute}, driver.Hooks{})
	defer p.Close()
	p.Attach(t.Context(), old)
	if _, _, err := p.StartTask(t.Context(), config); err != nil || old.got.Env["A"] != "1" || old.got.Env["B"] != "secret" || old.got.SecretEnv != nil {
		t.Errorf("an older driver got Env %v, %v", old.got.Env, err)
	}
	// The plugin is upgraded. What counts is the process that starts the task.
	p.Attach(t.Context(), current)
	if _, _, err := p.StartTask(t.Context(), config); err != nil || current.got.Env["B"] != "plain" || current.got.SecretEnv["B"] != "secret" {
		t.Errorf("a newer driver got Env %v, %v", current.got.Env, err)
	}
}
