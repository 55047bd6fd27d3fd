// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	if os.Getenv("DRIVEREXEC_TEST_PLUGIN") != "" {
		if err := driverexec.Main(); err != nil {
			panic(err)
		}
		return
	}
	if err := os.Setenv("DROVER_SUPERVISOR_IDLE", "1s"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestRawExecKeepsTheContract(t *testing.T) {
	dir, err := os.MkdirTemp("", "driverexec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := supervisor.Open(context.Background(), filepath.Join(dir, "driver-exec"))
		if err == nil {
			err = c.Shutdown(context.Background())
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, drivertest.Options{
		New: func(t *testing.T) driver.Driver {
			d := driverexec.NewRawExec(filepath.Join(dir, "driver-exec"))
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			return d
		},
		Binary: exe, Name: "raw_exec",
		Env:    []string{"DRIVEREXEC_TEST_PLUGIN=1", driverexec.StateDirEnv + "=" + dir, "DROVER_SUPERVISOR_IDLE=1s"},
		Config: map[string]any{"enabled": true},
		Script: func(s string) map[string]any {
			return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}}
		},
	})
}
