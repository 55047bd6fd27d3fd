// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package taskroot

import (
	"context"

	"github.com/drover-project/drover/sdk/errdefs"
)

func unable() string {
	return "the agent builds root file systems for tasks on Linux only; run the job on a node with Linux"
}

// Build returns an error on this platform.
func (r *Roots) Build(context.Context, string) error {
	return errdefs.Unimplementedf("%s", r.Unable())
}

// Remove does nothing on this platform.
func (r *Roots) Remove(string) error { return nil }
