// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driverdocker

import "github.com/drover-project/drover/sdk/errdefs"

func keepNamespace(string, int, string) error {
	return errdefs.Unimplementedf("networks of groups exist on Linux only; use mode \"host\" in the group's network")
}

func dropNamespace(string) error { return nil }
