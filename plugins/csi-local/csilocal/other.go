// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

// Package csilocal is a CSI driver for volumes on a machine's own disk, on Linux only.
package csilocal

import "errors"

// Main says that there is no driver for this system.
func Main() error { return errors.New("csi-local makes volumes on Linux only") }
