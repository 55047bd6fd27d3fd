// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package quota

import (
	"io/fs"
	"os"
)

const openDirectory = os.O_RDONLY

func entryOf(info fs.FileInfo) entry { return entry{bytes: info.Size()} }
