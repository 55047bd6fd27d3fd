// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivertest

import (
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// asProcess launches the plugin as a host does; it dies by SIGKILL.
func asProcess(t *testing.T, opts Options) connected {
	t.Helper()
	conn, die := plugintest.Launch(t, opts.command())
	drivers, err := driver.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, d := range drivers {
		if d.Info().Name == opts.Name || opts.Name == "" {
			return connected{Driver: d, die: die}
		}
	}
	t.Fatalf("plugin %s has no driver %q", opts.Binary, opts.Name)
	return connected{}
}
