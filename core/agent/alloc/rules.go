// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Rules are the operator's for the tasks of a node.
type Rules struct {
	// EnvDenylist names what tasks do not inherit of the agent's environment; nil is
	// taskenv.DefaultDenylist.
	EnvDenylist []string
	// DeniedUsers, by name or id, are whom no task of CheckedDrivers runs as.
	DeniedUsers    []string
	CheckedDrivers []string
}

// allowUser refuses a user whom tasks of the driver may not run as. A task that
// names none runs as its driver's default.
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

// userID is the id of a user of this machine, who may be named by it; "" of one that
// does not exist, which the driver says.
func userID(name string) string {
	if u := lookUpUser(name); u != nil {
		return u.Uid
	}
	return ""
}
