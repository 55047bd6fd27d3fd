// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"io"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// RecoverHalf recovers a task up to the moment in which it is known without its
// launch.
func (d *Driver) RecoverHalf(ctx context.Context, h *driver.Handle) error {
	return d.Tasks.RecoverTask(ctx, h)
}

// ReadHeader returns the format and the backing file that the header of a disk image
// states.
func ReadHeader(r io.ReaderAt, size int64) (format, backing string, err error) {
	h, err := readHeader(r, size)
	return h.Format, h.Backing, err
}

// Split splits a QEMU value into properties and joins them again.
func Split(value string) (names []string, again string) {
	props := properties(value)
	for _, p := range props {
		names = append(names, p.name)
	}
	return names, join(props)
}

// CheckArgs checks a task's args without an allowlist.
func CheckArgs(args []string) error {
	_, err := parseArgs(args, nil)
	return err
}
