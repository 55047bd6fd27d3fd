// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivertest_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
)

func TestTheExampleDriverKeepsTheContract(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "driver-shell")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/driver-shell").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	drivertest.Run(t, drivertest.Options{
		New:        func(*testing.T) driver.Driver { return shelldriver.New("shell") },
		Binary:     binary,
		Name:       "shell",
		Script:     func(s string) map[string]any { return map[string]any{"script": s} },
		NoRotation: true,
		Parallel:   true,
	})
}
