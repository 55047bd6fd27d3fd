// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestTheIdsOfAllocsAreARangeAboveThoseOfTheSystem(t *testing.T) {
	for _, x := range []struct {
		users       *config.Users
		first, last int
		refused     bool
	}{
		{nil, 0, 0, false},
		{&config.Users{}, 80000, 89999, false},
		{&config.Users{DynamicUserMin: 200000, DynamicUserMax: 265535}, 200000, 265535, false},
		{&config.Users{DynamicUserMin: 85000}, 85000, 89999, false},
		{&config.Users{DynamicUserMin: 999}, 999, 89999, true},
		{&config.Users{DynamicUserMin: 90000}, 90000, 89999, true},
		{&config.Users{DynamicUserMin: -5}, -5, 89999, true},
		{&config.Users{DynamicUserMax: 1<<31 - 1}, 80000, 1<<31 - 1, true},
	} {
		if first, last := x.users.Range(); first != x.first || last != x.last {
			t.Errorf("%+v: from %d to %d", x.users, first, last)
		}
		c := config.Defaults()
		c.Client.Enabled, c.Server.Enabled, c.DataDir = true, true, "/data"
		c.Client.Users = x.users
		if err := c.Finish(); (err != nil) != x.refused {
			t.Errorf("%+v: %v", x.users, err)
		}
	}
}
