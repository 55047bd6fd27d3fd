// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package cgroup

// Unavailable says why this machine cannot limit tasks. It returns "" if it can.
func Unavailable() string {
	groups, err := FindCgroups()
	if err != nil {
		return err.Error()
	}
	return groups.Missing()
}
