// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driverdocker

import "github.com/drover-project/drover/sdk/errdefs"

// canStage reports false: mounts by descriptor are Linux's.
func canStage() bool { return false }

func (s *stage) bind(string, string, bool) (string, error) {
	return "", errdefs.Unimplementedf("mounts for containers are made on Linux only")
}

func mountStage(string) error { return nil }

func clearStage(string) error { return nil }

func fileIn(int, string) bool { return false }
