// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package supervised

import (
	"context"

	"github.com/drover-project/drover/plugins/internal/supervisor"
)

// Paused reports whether a task is paused. None can be on this system.
func Paused(supervisor.Status) bool { return false }

func thaw(context.Context, *supervisor.Client, string) error { return nil }
