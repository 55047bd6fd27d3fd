// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GiveBackMappings asks the system to take back the memory that holds pages of the mapped
// files below dir. Badger maps its files, and each page that was read or written counts as
// memory of the process until the system needs room. No data is lost: changed pages are
// written first, and a page that is used again is read from its file. It is a request only;
// a kernel older than 5.4 does not know it.
//
// The addresses are those of this moment. Badger may unmap a file meanwhile and the same
// address may belong to something else; the request is as harmless there.
func GiveBackMappings(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // mappings have the names of files without links
	}
	if err != nil {
		return fmt.Errorf("find the directory of the mapped files: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read the mappings of this process: %w", err)
	}
	defer maps.Close()
	var errs error
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		begin, end, ok := mappingBelow(lines.Text(), dir)
		if !ok {
			continue
		}
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_PAGEOUT)
		if errno == unix.EINVAL { // a kernel that does not know the request
			return nil
		}
		if errno != 0 && errno != unix.ENOMEM { // ENOMEM: it is not mapped any more
			errs = errors.Join(errs, fmt.Errorf("give back the mapping %s: %w", lines.Text(), errno))
		}
	}
	return errors.Join(errs, lines.Err())
}

// mappingBelow returns the addresses of a line of /proc/self/maps, and whether it maps a
// file below dir, which is absolute.
func mappingBelow(line, dir string) (begin, end uintptr, ok bool) {
	_, path, found := strings.Cut(line, "/")
	if !found || !strings.HasPrefix("/"+path, strings.TrimSuffix(dir, "/")+"/") {
		return 0, 0, false
	}
	from, to, found := strings.Cut(strings.SplitN(line, " ", 2)[0], "-")
	if !found {
		return 0, 0, false
	}
	b, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
	e, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
	return uintptr(b), uintptr(e), err1 == nil && err2 == nil && b < e
}
