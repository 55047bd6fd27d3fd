// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package taskroot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/sdk/errdefs"
)

// unable tries what Build does, on a folder that it removes.
func unable() string {
	dir, err := os.MkdirTemp("", "drover-root-")
	if err != nil {
		return fmt.Sprintf("the agent cannot try to build a root file system: %v; make its temporary directory writable", err)
	}
	defer os.Remove(dir)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Sprintf("the agent cannot try to build a root file system: %v", err)
	}
	defer closeFD(at)
	if err := clone(at, at, unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Sprintf("the agent cannot build root file systems for tasks (mount: %v); run it as root with CAP_SYS_ADMIN on Linux 5.12 or newer", err)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Sprintf("the agent cannot unmount %s: %v", dir, err)
	}
	return ""
}

// Build makes the folder of a task a root file system. What an earlier run of the task has
// left mounted there is replaced.
func (r *Roots) Build(ctx context.Context, taskDir string) error {
	if why := r.Unable(); why != "" {
		return errdefs.FailedPreconditionf("%s", why)
	}
	if err := r.Remove(taskDir); err != nil {
		return err
	}
	err := r.build(ctx, taskDir)
	if err != nil {
		err = errors.Join(err, r.Remove(taskDir))
	}
	return err
}

func (r *Roots) build(ctx context.Context, taskDir string) error {
	alloc, err := unix.Open(filepath.Dir(taskDir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the alloc directory: %w", err)
	}
	defer closeFD(alloc)
	task, err := openIn(alloc, filepath.Base(taskDir))
	if err != nil {
		return fmt.Errorf("open the folder of the task: %w", err)
	}
	defer closeFD(task)
	shared, err := openIn(alloc, sharedDir)
	if err != nil {
		return fmt.Errorf("open the alloc's shared folder: %w", err)
	}
	defer closeFD(shared)
	if err := mount(task, shared, sharedDir, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID); err != nil {
		return fmt.Errorf("show the alloc's shared folder to the task: %w", err)
	}
	for _, s := range r.seen {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := show(task, s); err != nil {
			return fmt.Errorf("show %s to the task: %w", s.Source, err)
		}
	}
	return nil
}

// show puts a part of the machine into a task's folder. A part that this machine does not have
// is left out.
func show(task int, s Seen) error {
	source, err := unix.Open(s.Source, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(source)
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return err
	}
	target := strings.TrimPrefix(s.Target, "/")
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
		if seesAlready(task, target, &st) {
			return nil
		}
	case unix.S_IFLNK:
		return copyLink(task, s.Source, target)
	default:
		return errdefs.InvalidArgumentf("it is neither a directory nor a file; leave it out of client.chroot_env")
	}
	return mount(task, source, target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV)
}

// seesAlready reports whether a task sees the same file or directory at a path, for instance
// because the whole directory above it is shown.
func seesAlready(task int, target string, st *unix.Stat_t) bool {
	fd, err := unix.Openat2(task, target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var there unix.Stat_t
	return unix.Fstat(fd, &there) == nil && there.Dev == st.Dev && there.Ino == st.Ino
}

// copyLink makes the same link in the task's folder: /bin is one on many machines.
func copyLink(task int, source, target string) error {
	to, err := os.Readlink(source)
	if err != nil {
		return err
	}
	dir, err := makePath(task, filepath.Dir(target))
	if err != nil {
		return err
	}
	defer closeFD(dir)
	if err := unix.Symlinkat(to, dir, filepath.Base(target)); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make the link %s: %w", target, err)
	}
	return nil
}

// mount shows a directory or file at a path of the task's folder, with all that is mounted
// in it. If the task has files of its own in a directory there, such as those of an
// artifact, both are seen.
func mount(task, source int, target string, attributes uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return err
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	place, err := makePlace(task, target, isDir)
	if err != nil {
		return conflict(target, err)
	}
	defer closeFD(place)
	if isDir && attributes&unix.MOUNT_ATTR_RDONLY != 0 && hasFiles(place) {
		return merge(task, place, source, target, attributes)
	}
	return clone(source, place, attributes)
}

func conflict(target string, err error) error {
	if err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EISDIR {
		return errdefs.InvalidArgumentf("the task's folder has something else at %s (%w); have its artifacts and templates use local/", target, err)
	}
	return fmt.Errorf("make %s in the task's folder: %w", target, err)
}

// clone mounts a copy of the tree of mounts at source, whose attributes are set before it
// can be reached by a path. It is private: what is mounted in it does not appear on the
// machine.
func clone(source, place int, attributes uint64) error {
	tree, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer closeFD(tree)
	attr := &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// merge mounts a directory of the machine below the task's own files at that place. What is
// mounted in the machine's directory is not seen.
func merge(task, place, source int, target string, attributes uint64) error {
	layers := "lowerdir=" + procFD(place) + ":" + procFD(source) // a real path might have a colon
	if err := unix.Mount("overlay", procFD(place), "overlay", unix.MS_RDONLY|unix.MS_NODEV, layers); err != nil {
		return fmt.Errorf("overlay the task's files in %s: %w; put them below local/", target, err)
	}
	mounted, err := openIn(task, target)
	if err != nil {
		return err
	}
	defer closeFD(mounted)
	return unix.MountSetattr(mounted, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE})
}

// hasFiles reports whether a directory has something in it.
func hasFiles(dir int) bool {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(1)
	return err == nil && len(names) > 0
}

// openIn opens what is below a directory. No link is followed.
func openIn(dir int, path string) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// makePath opens a directory below another, and makes it and its parents.
func makePath(dir int, path string) (int, error) {
	at, err := unix.Openat(dir, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for _, name := range strings.Split(path, "/") {
		if err != nil {
			return -1, err
		}
		if name == "." {
			continue
		}
		above := at
		if err = unix.Mkdirat(above, name, 0o755); err == nil || err == unix.EEXIST {
			at, err = unix.Openat(above, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		closeFD(above)
	}
	return at, err
}

// makePlace opens the place of a mount, which it makes if it is not there.
func makePlace(task int, target string, isDir bool) (int, error) {
	if isDir {
		return makePath(task, target)
	}
	dir, err := makePath(task, filepath.Dir(target))
	if err != nil {
		return -1, err
	}
	defer closeFD(dir)
	file, err := unix.Openat(dir, filepath.Base(target), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == nil {
		closeFD(file)
	} else if err != unix.EEXIST {
		return -1, err
	}
	return openIn(dir, filepath.Base(target))
}

// Remove unmounts everything below the folder of a task except its secrets. The folder
// keeps the task's own files.
func (r *Roots) Remove(taskDir string) error {
	if err := mounts.DetachBelow(taskDir, secretsDir); err != nil {
		return fmt.Errorf("in the folder of the task: %w", err)
	}
	return nil
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func closeFD(fd int) { _ = unix.Close(fd) } // nothing was written through it
