// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"slices"
	"strings"
)

// The client.options that concern tasks, with the reference's names and defaults.
const (
	envDenylist  = "env.denylist"
	userDenylist = "user.denylist"
	userDrivers  = "user.checked_drivers"
)

// The client.options that say which drivers the node offers, each with its former name.
var (
	driverAllowlist = []string{"driver.allowlist", "driver.whitelist"}
	driverDenylist  = []string{"driver.denylist", "driver.blacklist"}
)

// options are all of them.
func options() []string {
	return slices.Concat([]string{envDenylist, userDenylist, userDrivers}, driverAllowlist, driverDenylist)
}

// Drivers returns the drivers that the node may offer, none for all, and those that it
// must not offer.
func (c *Client) Drivers() (allowed, denied []string) {
	of := func(keys []string) []string {
		for _, key := range keys {
			if text, ok := c.Options[key]; ok {
				return listed(text)
			}
		}
		return nil
	}
	return of(driverAllowlist), of(driverDenylist)
}

// EnvDenylist returns the agent's environment variables that no task inherits; nil if
// it is not configured.
func (c *Client) EnvDenylist() []string {
	if text, ok := c.Options[envDenylist]; ok {
		return listed(text)
	}
	return nil
}

// DeniedUsers returns the users that tasks of the drivers may not run as.
func (c *Client) DeniedUsers() (users, drivers []string) {
	users, drivers = []string{"root", "Administrator"}, []string{"exec", "qemu", "java"}
	if text, ok := c.Options[userDenylist]; ok {
		users = listed(text)
	}
	if text, ok := c.Options[userDrivers]; ok {
		drivers = listed(text)
	}
	return users, drivers
}

// listed parses a comma-separated list; it never returns nil.
func listed(text string) []string {
	out := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
