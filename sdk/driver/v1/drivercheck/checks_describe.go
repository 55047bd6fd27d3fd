// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"reflect"
	"slices"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

var describeChecks = []Check{
	{"info", "info is complete, always the same, and its schemas are sound", nil, checkInfo},
	{"config-again", "the same agent config may be set again at any time", nil, checkConfigAgain},
}

func checkInfo(b *bench) {
	info := b.d.Info()
	if info.Name == "" || strings.ContainsAny(info.Name, " /\"") {
		b.t.Errorf("the name %q cannot be that of a driver in a job file", info.Name)
	}
	isolations := []driver.FSIsolation{driver.FSIsolationNone, driver.FSIsolationChroot, driver.FSIsolationImage}
	if !slices.Contains(isolations, info.Capabilities.FSIsolation) {
		b.t.Errorf("the file system isolation is %q, want one of %q", info.Capabilities.FSIsolation, isolations)
	}
	modes := []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup, driver.NetworkTask, driver.NetworkNone}
	for _, m := range info.Capabilities.NetworkModes {
		if !slices.Contains(modes, m) {
			b.t.Errorf("the network mode %q is unknown; known are %q", m, modes)
		}
	}
	if err := info.ConfigSchema.Check(); err != nil {
		b.t.Errorf("config schema: %v", err)
	}
	if err := info.TaskConfigSchema.Check(); err != nil {
		b.t.Errorf("task config schema: %v", err)
	}
	if again := b.d.Info(); !reflect.DeepEqual(again, info) {
		b.t.Errorf("Info answers differently the second time: %+v", again)
	}
}

// checkConfigAgain configures the driver a second time: every check begins with the first.
func checkConfigAgain(b *bench) { b.configure() }
