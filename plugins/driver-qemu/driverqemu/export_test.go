// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import "io"

// ReadHeader returns what the head of a disk image says of format and backing file.
func ReadHeader(r io.ReaderAt, size int64) (format, backing string, err error) {
	h, err := readHeader(r, size)
	return h.Format, h.Backing, err
}

// Split takes a value of QEMU apart and puts it together again.
func Split(value string) (names []string, again string) {
	props := properties(value)
	for _, p := range props {
		names = append(names, p.name)
	}
	return names, join(props)
}

// CheckArgs checks a task's args where the operator lists none.
func CheckArgs(args []string) error {
	_, err := parseArgs(args, nil)
	return err
}
