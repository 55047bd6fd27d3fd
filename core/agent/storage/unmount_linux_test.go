// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage_test

import "syscall"

const canMount = true

// mount mounts a directory on itself.
func mount(path string) error { return syscall.Mount(path, path, "", syscall.MS_BIND, "") }

func unmount(path string) { _ = syscall.Unmount(path, syscall.MNT_DETACH) } // it may not be mounted
