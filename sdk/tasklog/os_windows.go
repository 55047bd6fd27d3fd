// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package tasklog

import "io/fs"

const openFlags = 0

func links(fs.FileInfo) uint64 { return 1 }
