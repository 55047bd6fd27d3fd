// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import "strings"

// The client.options that concern tasks, with the reference's names and defaults.
const (
	envDenylist  = "env.denylist"
	userDenylist = "user.denylist"
	userDrivers  = "user.checked_drivers"
)

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
