// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package alloc

import (
	"fmt"
	"os"
	"syscall"
)

// namespaceID returns what tells the namespace at a path from all others that are in use; "" if
// that is not known.
func namespaceID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
