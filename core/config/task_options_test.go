// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"slices"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestTasksOfIsolatingDriversDoNotRunAsRootUnlessOptionsOfTheReferenceSaySo(t *testing.T) {
	for _, x := range []struct {
		options        config.Strings
		users, drivers []string
	}{
		{nil, []string{"root", "Administrator"}, []string{"exec", "qemu", "java"}},
		{config.Strings{"user.denylist": ""}, []string{}, []string{"exec", "qemu", "java"}},
		{config.Strings{"user.denylist": "root, www-data,", "user.checked_drivers": "raw_exec"}, []string{"root", "www-data"}, []string{"raw_exec"}},
	} {
		c := config.Client{Options: x.options}
		if users, drivers := c.DeniedUsers(); !slices.Equal(users, x.users) || !slices.Equal(drivers, x.drivers) {
			t.Errorf("%v: users %q of drivers %q", x.options, users, drivers)
		}
	}
}

func TestOptionsOfTheReferenceSayWhichDriversANodeOffers(t *testing.T) {
	for _, x := range []struct {
		options         config.Strings
		allowed, denied []string
	}{
		{nil, nil, nil},
		{config.Strings{"driver.allowlist": "exec, java", "driver.denylist": "raw_exec"}, []string{"exec", "java"}, []string{"raw_exec"}},
		{config.Strings{"driver.whitelist": "exec", "driver.blacklist": "raw_exec"}, []string{"exec"}, []string{"raw_exec"}},
		{config.Strings{"driver.denylist": "exec", "driver.blacklist": "raw_exec"}, nil, []string{"exec"}},
		{config.Strings{"driver.allowlist": ""}, nil, nil},
	} {
		c := config.Client{Options: x.options}
		if allowed, denied := c.Drivers(); !slices.Equal(allowed, x.allowed) || !slices.Equal(denied, x.denied) {
			t.Errorf("%v: %q are allowed, %q denied", x.options, allowed, denied)
		}
	}
}

func TestTheListOfVariablesThatTasksDoNotInheritIsReplacedAsAWhole(t *testing.T) {
	c := config.Client{}
	if list := c.EnvDenylist(); list != nil {
		t.Errorf("unset: %q", list)
	}
	c.Options = config.Strings{"env.denylist": "A,B_TOKEN"}
	if list := c.EnvDenylist(); !slices.Equal(list, []string{"A", "B_TOKEN"}) {
		t.Errorf("set: %q", list)
	}
	c.Options = config.Strings{"env.denylist": ""}
	if list := c.EnvDenylist(); list == nil || len(list) != 0 {
		t.Errorf("set to nothing: %q", list)
	}
}
