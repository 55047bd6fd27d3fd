// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package csiplugin

import "errors"

// mounted reports whether something is mounted at a path: on other systems nobody can tell.
func mounted(string) (bool, error) {
	return false, errors.New("whether a volume is mounted can be told on Linux only; set verify_mounts = false")
}

func unmount(string) error { return errors.New("volumes can be unmounted on Linux only") }
