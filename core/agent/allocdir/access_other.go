// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package allocdir

// Admit does nothing: folders inherit the permissions of the folder above.
func (d Dir) Admit(task string, _ Access) error { return checkTaskName(task) }

// AdmitShared does nothing, either.
func (d Dir) AdmitShared(Access) error { return nil }
