// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bringUp mounts a volume at its staging path, or makes it a block device.
func (d *Driver) bringUp(ctx context.Context, m *volumeMeta, path, options string) error {
	if m.Kind == kindLoop && m.FSType == "" {
		device, err := attach(d.disk(m.ID), false)
		if err != nil {
			return err
		}
		return device.Close()
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make the staging path: %w", err)
	}
	if m.Kind == kindDirectory {
		args := []string{"--bind"}
		if options != "" {
			args = append(args, "-o", options)
		}
		return run(ctx, "mount", append(args, "--", filepath.Join(d.folder(m.ID), dataDir), path)...)
	}
	device, shared, err := d.deviceFor(ctx, m)
	if err != nil {
		return err
	}
	defer device.Close()
	if m.FSType == "xfs" { // clones and snapshots have the same id
		options = strings.TrimPrefix(options+",nouuid", ",")
	}
	args := []string{"-t", m.FSType}
	if options != "" {
		args = append(args, "-o", options)
	}
	if err := run(ctx, "mount", append(args, "--", device.Name(), path)...); err != nil || m.FSType != "xfs" && !shared {
		return err
	}
	err = d.growAt(ctx, m, path) // which could not be done before
	if shared && status.Code(err) == codes.FailedPrecondition {
		return nil // it has its old size until it is staged next; NodeExpandVolume says why
	}
	return err
}

// deviceFor returns the open block device of a volume with a file system. A volume that was
// unstaged may still have one: a process in a mount namespace of its own has copies of the
// mounts, and the file system goes on until the last is gone. A second device of the same file
// would then show a second file system, without what the first has not written yet.
func (d *Driver) deviceFor(ctx context.Context, m *volumeMeta) (device *os.File, shared bool, err error) {
	disk := d.disk(m.ID)
	if device, err = attached(disk); device != nil || err != nil {
		return device, true, err
	}
	if err := growApart(ctx, m.FSType, disk); err != nil {
		return nil, false, err
	}
	device, err = attach(disk, true)
	return device, false, err
}

// takeDown reverses bringUp.
func (d *Driver) takeDown(m *volumeMeta, path string) error {
	switch {
	case m.Kind == kindLoop && m.FSType == "":
		return detach(d.disk(m.ID))
	case m.Kind == kindLoop:
		return errors.Join(flush(path), clear(path))
	}
	return clear(path)
}

// flush writes what a mounted file system has in memory, which the end of this mount need not
// do: see deviceFor.
func flush(path string) error {
	there, err := isMounted(path)
	if err != nil || !there {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("write what the volume has in memory: %w", err)
	}
	return nil
}

// growAt makes what this node has of a volume as large as the volume.
func (d *Driver) growAt(ctx context.Context, m *volumeMeta, path string) error {
	if err := grow(d.disk(m.ID)); err != nil || m.FSType == "" {
		return err
	}
	all, err := devices(d.disk(m.ID))
	if err != nil || len(all) == 0 {
		return err
	}
	return growMounted(ctx, m.FSType, all[0], path)
}
