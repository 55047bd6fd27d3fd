// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"slices"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

func TestOptionsOfACommandThatTheDriverWouldIgnoreAreMissing(t *testing.T) {
	all := driver.ExecOptions{User: "root", Directory: "/", Env: map[string]string{"A": "1"}}
	for _, c := range []struct {
		has        []string
		opts       driver.ExecOptions
		wantMissed []string
	}{
		{nil, driver.ExecOptions{Command: []string{"true"}}, nil}, // an older plugin runs plain commands
		{nil, all, []string{"user", "directory", "environment"}},
		{[]string{"directory", "later"}, all, []string{"user", "environment"}},
		{[]string{"user", "directory", "environment"}, all, nil},
	} {
		if got := driver.MissingExecOptions(driver.Capabilities{ExecOptions: c.has}, c.opts); !slices.Equal(got, c.wantMissed) {
			t.Errorf("a driver with %q misses %q of %+v, want %q", c.has, got, c.opts, c.wantMissed)
		}
	}
}
