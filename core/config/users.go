// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import "fmt"

// Users are the user ids that the node gives to allocs, one each, for tasks that name
// no user.
type Users struct {
	DynamicUserMin int `json:"dynamic_user_min,omitempty"`
	DynamicUserMax int `json:"dynamic_user_max,omitempty"`
}

// Defaults of the users block, as in the reference.
const (
	defaultDynamicUserMin = 80000
	defaultDynamicUserMax = 89999
)

// Ids below 1000 are reserved for the system. Some systems use the highest ids for
// "nobody" or "no change".
const (
	lowestDynamicUser  = 1000
	highestDynamicUser = 1<<31 - 2
)

// Range returns the first and the last id; zeros where allocs get none.
func (u *Users) Range() (first, last int) {
	if u == nil {
		return 0, 0
	}
	first, last = defaultDynamicUserMin, defaultDynamicUserMax
	if u.DynamicUserMin != 0 {
		first = u.DynamicUserMin
	}
	if u.DynamicUserMax != 0 {
		last = u.DynamicUserMax
	}
	return first, last
}

// problems lists the errors in the range.
func (u *Users) problems() []string {
	if u == nil {
		return nil
	}
	if first, last := u.Range(); first < lowestDynamicUser || last < first || last > highestDynamicUser {
		return []string{fmt.Sprintf("client.users: ids from dynamic_user_min %d to dynamic_user_max %d are not a range between %d and %d", first, last, lowestDynamicUser, highestDynamicUser)}
	}
	return nil
}
