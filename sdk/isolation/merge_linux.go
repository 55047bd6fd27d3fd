// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hasOwn reports whether the task's directory contains files at a place where a part
// of the machine is mounted, such as a template that was rendered to
// usr/local/bin/run. It ignores links, which could lead anywhere.
func (t *tree) hasOwn(target string) bool {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(t.fd, strings.TrimPrefix(filepath.Clean("/"+target), "/"), how)
	if err != nil {
		return false
	}
	dir := os.NewFile(uintptr(fd), target)
	defer dir.Close()
	names, err := dir.Readdirnames(1)
	return err == nil && len(names) > 0
}

// merge mounts a directory of the machine read-only, overlaid with the task's own
// files at that place. Mounts below the machine's directory are not visible.
func (t *tree) merge(b Bind) error {
	source, err := unix.Open(b.Source, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("show %s to the task: %w", b.Source, err)
	}
	t.keep(source)
	place, err := t.target(b.Target, true)
	if err != nil {
		return err
	}
	// The option uses paths through descriptors, because characters of a real name could
	// have a special meaning in it.
	layers := "lowerdir=" + place + ":" + procFD(source)
	if err := unix.Mount("overlay", place, "overlay", unix.MS_RDONLY|unix.MS_NODEV, layers); err != nil {
		return fmt.Errorf("overlay the task's files in %s on the machine's: %w; put them below local/, or remove the path from chroot_env", b.Target, err)
	}
	return t.change(b.Target, readOnly|noDevice, unix.MS_PRIVATE)
}
