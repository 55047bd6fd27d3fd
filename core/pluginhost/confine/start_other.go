// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package confine

import (
	"os/exec"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Identity is the user and the groups of a process.
type Identity struct {
	UID, GID int
	Groups   []int
}

// Changes reports false: a plugin has the agent's user.
func (Identity) Changes() bool { return false }

// Identify returns FailedPrecondition if the operator asks for a user.
func (r *Rights) Identify(int) (Identity, error) {
	if r.User != "" {
		return Identity{}, errdefs.FailedPreconditionf("the plugin is to run as user %q, which works on Linux only; remove user from the plugin's block", r.User)
	}
	return Identity{}, nil
}

// Start starts cmd. This system cannot restrict plugins.
func Start(cmd *exec.Cmd, _ *Rights, _ Identity, _ *Birth) (born, err error) { return nil, cmd.Start() }

// Lacking lists the restrictions that this machine cannot enforce.
func (r *Rights) Lacking() []string {
	if r.RestrictFiles || r.RestrictSyscalls || r.OwnUser || !r.AllCapabilities() {
		return []string{"it has the rights of the agent: plugins are confined on Linux only"}
	}
	return nil
}

// LimitFiles does nothing: limits exist on Linux only.
func LimitFiles(int, int) error { return nil }
