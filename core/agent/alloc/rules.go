// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Rules are the operator's for the tasks of a node.
type Rules struct {
	// EnvDenylist names the variables of the agent that tasks do not inherit; nil means
	// taskenv.DefaultDenylist.
	EnvDenylist []string
	// DeniedUsers lists the users, by name or id, as whom no task of CheckedDrivers may
	// run.
	DeniedUsers    []string
	CheckedDrivers []string
	// AllowedDrivers are those that the node offers, none for all; DeniedDrivers are
	// not offered in any case.
	AllowedDrivers []string
	DeniedDrivers  []string
}

// AllowDriver refuses a driver whose tasks the node must not start.
func (r *Rules) AllowDriver(name string) error {
	option := ""
	switch {
	case slices.Contains(r.DeniedDrivers, name):
		option = "names it in \"driver.denylist\""
	case len(r.AllowedDrivers) > 0 && !slices.Contains(r.AllowedDrivers, name):
		option = "does not name it in \"driver.allowlist\""
	default:
		return nil
	}
	return errdefs.PermissionDeniedf("driver %s is not offered by this node: its agent's client.options %s", name, option)
}

// allowUser refuses a user as whom tasks of the driver may not run. A task that names none
// runs as its driver's default.
func (r *Rules) allowUser(driver, name string) error {
	if name == "" || !slices.Contains(r.CheckedDrivers, driver) {
		return nil
	}
	id := userID(name)
	for _, denied := range r.DeniedUsers {
		if denied == name || id != "" && id == userID(denied) {
			return errdefs.PermissionDeniedf("user %q is in the agent's client.options \"user.denylist\", so no task of driver %s runs as it; run the task as another user", name, driver)
		}
	}
	return nil
}

// userID returns the id of a user of this machine, given by name or id; "" if there is no
// such user, which the driver will report.
func userID(name string) string {
	if u := lookUpUser(name); u != nil {
		return u.Uid
	}
	return ""
}
