// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package process

import "os"

// strays returns nothing: this system does not show the environment of processes.
func strays(string, map[string][]string) []*os.Process { return nil }
