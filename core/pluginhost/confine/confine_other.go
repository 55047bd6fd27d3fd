// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package confine

import (
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Groups is empty: cgroups exist on Linux only.
type Groups struct{}

// Find returns groups that confine nothing.
func Find() (*Groups, error) { return &Groups{}, nil }

// Put returns Unimplemented.
func (*Groups) Put(string, int, Limits) error {
	return errdefs.Unimplementedf("plugins have no limits on this system: cgroups are Linux's")
}

// Birth is empty: cgroups exist on Linux only.
type Birth struct{}

// Birth returns Unimplemented.
func (*Groups) Birth(string, Limits) (*Birth, error) {
	return nil, errdefs.Unimplementedf("plugins have no limits on this system: cgroups are Linux's")
}

// Remove has nothing to remove.
func (*Groups) Remove(string) bool { return true }

// Sweep has nothing to remove.
func (*Groups) Sweep(time.Time, int) {}

// OOMKills returns 0.
func (*Groups) OOMKills(string) int { return 0 }

// EndOthers has nothing to kill.
func (*Groups) EndOthers(string, map[int]bool) int { return 0 }

// FreeTasks has nothing to move.
func (*Groups) FreeTasks(string, func(pid int) bool) {}

// Descendants returns none: processes are looked for on Linux only.
func Descendants(int) []int { return nil }
