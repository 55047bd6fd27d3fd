// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package fingerprint

func (f *Facts) probePlatform() {}

// CgroupParent is where the tasks' cgroups lie; there are none here.
func CgroupParent() string { return "" }

func signals() []string {
	return []string{"SIGABRT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL", "SIGNULL", "SIGPIPE", "SIGQUIT", "SIGSEGV", "SIGTERM"}
}
