// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && (amd64 || arm64)

package isolation

import (
	"bytes"
	"unsafe"
)

// programText returns the address of the code; see the assembly.
func programText() uintptr

// loader copies the code of a program from this binary. It returns nil on
// architectures without one.
func loader() []byte {
	const longest = 512 // larger than the code, and small enough to stay within any binary
	begin := programText()
	text := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&begin))), longest)
	end := bytes.Index(text, []byte("DROVEREN"))
	if end < 0 {
		return nil
	}
	return bytes.Clone(text[:end])
}
