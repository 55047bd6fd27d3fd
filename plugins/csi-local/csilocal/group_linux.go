// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// giveTo lets a group read and write all files of a volume. A volume whose top belongs to the
// group already is left as it is, because large ones take long.
func giveTo(path, group string) error {
	if group == "" {
		return nil
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "%q is not the id of a group", group)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look whose the volume is: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && uint64(st.Gid) == gid && info.Mode()&fs.ModeSetgid != 0 {
		return nil
	}
	root, err := os.OpenRoot(path) // nothing outside of the volume is changed
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close()
	give := func(name string, e fs.FileInfo) error {
		if err := root.Lchown(name, -1, int(gid)); err != nil {
			return fmt.Errorf("give the volume to the group: %w", err)
		}
		if e.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		mode := e.Mode() | 0o060
		if e.IsDir() {
			mode |= fs.ModeSetgid | 0o010
		}
		if err := root.Chmod(name, mode&(fs.ModePerm|fs.ModeSetgid|fs.ModeSetuid|fs.ModeSticky)); err != nil {
			return fmt.Errorf("give the volume to the group: %w", err)
		}
		return nil
	}
	// The top comes last: by it the next call knows that all is done.
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("look at %s: %w", filepath.Join(path, name), err)
		}
		return give(name, info)
	})
	if err != nil {
		return fmt.Errorf("give the volume to the group: %w", err)
	}
	return give(".", info)
}

// everybody is the mode of the directory of a new volume. Tasks run as users that nobody
// knows when a volume is made, and only tasks that have been given the volume reach it.
const everybody = 0o777

// openToAll lets every user write into a new file system, which belongs to root. What has
// been used keeps its mode.
func openToAll(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the new file system: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o755 {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("look at the new file system: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" { // ext4 makes it
			return nil
		}
	}
	if err := os.Chmod(path, everybody); err != nil && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("let every user write into the new file system: %w", err)
	}
	return nil
}
