// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package idle

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// area is a part of this process's memory that holds a part of its program.
type area struct{ begin, end uintptr }

// releaseProgram unmaps the pages of the program's code and constants, of which four fifths are
// used only while the program starts. The pages stay in the system's cache of files, and the
// kernel maps a page again when it is used. It ignores errors, because it only saves memory.
func releaseProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, a := range programAreas(maps, program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, a.begin, a.end-a.begin, syscall.MADV_DONTNEED)
	}
}

// programAreas returns the areas of smaps that map a file, cannot be written to, and of
// which no page was ever written to: only their contents are surely those of the file. A
// program that the loader relocates has areas that it writes to and then protects.
func programAreas(smaps io.Reader, file string) (out []area) {
	var at area
	candidate := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) >= 5 && strings.Contains(f[0], "-") && len(f[1]) == 4: // the head of an area
			var ok bool
			at, ok = addresses(f[0])
			candidate = ok && len(f) == 6 && f[5] == file && f[1][0] == 'r' && f[1][1] == '-' && f[1][3] == 'p'
		case candidate && len(f) >= 2 && f[0] == "Anonymous:": // pages that are not the file's any more
			if f[1] == "0" {
				out = append(out, at)
			}
			candidate = false
		}
	}
	return out
}

func addresses(text string) (a area, ok bool) {
	from, to, _ := strings.Cut(text, "-")
	begin, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
	end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
	return area{uintptr(begin), uintptr(end)}, err1 == nil && err2 == nil && begin < end
}
