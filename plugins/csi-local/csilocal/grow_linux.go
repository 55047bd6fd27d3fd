// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// growApart makes a file system that is not mounted as large as its file. Those of xfs can
// grow only while they are mounted.
func growApart(ctx context.Context, fsType, path string) error {
	if fsType != "ext4" {
		return nil
	}
	size, err := ext4Size(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the file of the volume: %w", err)
	}
	if info.Size() < size+largestBlock {
		return nil
	}
	if err := run(ctx, "e2fsck", "-f", "-p", path); err != nil { // resize2fs refuses a file system that was not checked
		return err
	}
	return run(ctx, "resize2fs", path)
}

// largestBlock is the size of the largest block of ext4 in bytes: a file that is larger than
// its file system by less may have no room for one more.
const largestBlock = 64 << 10

// ext4Size returns the size of a file system in bytes, as its superblock says it.
func ext4Size(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("open the file of the volume: %w", err)
	}
	defer f.Close()
	var super [1024]byte
	if _, err := f.ReadAt(super[:], 1024); err != nil {
		return 0, fmt.Errorf("read the superblock: %w", err)
	}
	const magic = 0xef53
	if binary.LittleEndian.Uint16(super[0x38:]) != magic {
		return 0, fmt.Errorf("%s has no file system of ext4 any more", path)
	}
	blocks := int64(binary.LittleEndian.Uint32(super[0x04:]))
	const wide = 0x80 // the feature 64bit
	if binary.LittleEndian.Uint32(super[0x60:])&wide != 0 {
		blocks |= int64(binary.LittleEndian.Uint32(super[0x150:])) << 32
	}
	return blocks << (10 + min(6, binary.LittleEndian.Uint32(super[0x18:]))), nil
}

// growMounted makes a file system that is mounted as large as its device.
func growMounted(ctx context.Context, fsType, device, path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("look at the size of the volume: %w", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 { // it grows when it is staged for writing
		return nil
	}
	if fsType == "xfs" {
		return run(ctx, "xfs_growfs", path)
	}
	err := run(ctx, "resize2fs", device)
	if err != nil && !mayGrow() {
		return status.Error(codes.FailedPrecondition, "the driver has no CAP_SYS_RESOURCE, without which Linux enlarges no mounted file system of ext4; give it that, or unstage the volume and stage it again")
	}
	return err
}

// mayGrow reports whether this process may enlarge a mounted file system of ext4.
func mayGrow() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
