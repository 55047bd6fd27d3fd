// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a root file system under construction. It is built by a thread with its
// own mount namespace, so after an error all mounts vanish with the thread.
type tree struct {
	cfg  *Config
	root string // path at which it is built
	fd   int    // descriptor of root
	// peers are the sources of bidirectional mounts. They are opened before our mount
	// namespace is made private.
	peers map[string]int
	fds   []int // closed at the end
}

func (t *tree) keep(fd int) { t.fds = append(t.fds, fd) }

// close closes the descriptors that were needed for building.
func (t *tree) close() {
	for _, fd := range t.fds {
		closeFD(fd)
	}
	t.fds = nil
}

const (
	readOnly = unix.MOUNT_ATTR_RDONLY
	noDevice = unix.MOUNT_ATTR_NODEV
	noSetuid = unix.MOUNT_ATTR_NOSUID
)

// own returns the writable directories of the task by their path inside the sandbox.
func (c *Config) own() []Bind {
	return []Bind{
		{Source: c.SharedDir, Target: "/alloc"},
		{Source: filepath.Join(c.TaskDir, "local"), Target: "/local"},
		{Source: filepath.Join(c.TaskDir, "secrets"), Target: "/secrets"},
		{Source: filepath.Join(c.TaskDir, "tmp"), Target: "/tmp"},
	}
}

// build mounts everything except /proc, see start.
func (t *tree) build(groups *groups) error {
	if err := t.openPeers(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", t.cfg.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=0755"); err != nil {
		return fmt.Errorf("mount a file system to build on at %s: %w", t.cfg.Scratch, err)
	}
	t.root = filepath.Join(t.cfg.Scratch, "root")
	if err := unix.Mkdir(t.root, 0o755); err != nil {
		return fmt.Errorf("make the root directory: %w", err)
	}
	if err := unix.Mount(t.cfg.TaskDir, t.root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the task's directory %s: %w", t.cfg.TaskDir, err)
	}
	var err error
	if t.fd, err = unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	t.keep(t.fd)
	if err := t.reserve(); err != nil {
		return err
	}
	for _, b := range t.cfg.Chroot {
		if err := t.chroot(b); err != nil {
			return err
		}
	}
	hidden := realPaths(t.cfg.Hide)
	if err := t.hide(t.cfg.Chroot, hidden, false); err != nil {
		return err
	}
	// The agent's private files of the task.
	if err := t.cover("/private"); err != nil {
		return err
	}
	for _, b := range t.cfg.own() {
		if err := t.bind(b, noDevice|noSetuid); err != nil {
			return err
		}
	}
	if err := t.sys(groups); err != nil {
		return err
	}
	if err := t.dev(); err != nil {
		return err
	}
	for _, b := range t.cfg.Mounts {
		if err := t.bind(b, noDevice|noSetuid); err != nil {
			return err
		}
	}
	if err := t.hide(t.cfg.Mounts, hidden, true); err != nil {
		return err
	}
	return t.names()
}

// reserve creates the directories that the sandbox needs. It fails if one of them is
// a link, which would redirect later mounts.
func (t *tree) reserve() error {
	for _, name := range []string{"alloc", "dev", "local", "proc", "secrets", "sys", "tmp"} {
		err := unix.Mkdirat(t.fd, name, 0o755)
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("make /%s in the task's directory: %w", name, err)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(t.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("make /%s in the task's directory: %w", name, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("%s in the task's directory conflicts with the directory of that name that every task has; use another name", name)
		}
	}
	return nil
}

func (t *tree) openPeers() error {
	t.peers = map[string]int{}
	for _, b := range t.cfg.Mounts {
		if b.Propagation != "bidirectional" {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("show %s to the task: %w", b.Source, err)
		}
		t.keep(fd)
		t.peers[b.Source] = fd
	}
	return nil
}

// target returns the path inside the root for a mount, and creates it if necessary.
// It does not follow links out of the root, and creates nothing in directories of
// the machine.
func (t *tree) target(path string, isDir bool) (string, error) {
	clean := strings.TrimPrefix(filepath.Clean("/"+path), "/")
	if clean == "" {
		return "", fmt.Errorf("nothing can be mounted on the task's root directory")
	}
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(t.fd, clean, how)
	if err == unix.ENOENT {
		fd, err = t.make(clean, isDir)
	}
	if err != nil {
		return "", fmt.Errorf("create the mount point %q in the task's root: %w; choose another one, in one of the task's own directories", path, err)
	}
	t.keep(fd)
	return procFD(fd), nil
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// make creates a directory or an empty file, and all its parent directories.
func (t *tree) make(path string, isDir bool) (int, error) {
	names := strings.Split(path, "/")
	at, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for i, name := range names {
		const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
		last := i == len(names)-1
		next, err := unix.Openat(at, name, flags, 0)
		if err == unix.ENOENT && (isDir || !last) {
			err = unix.Mkdirat(at, name, 0o755)
		} else if err == unix.ENOENT {
			var file int
			file, err = unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_WRONLY, 0o644)
			if err == nil {
				closeFD(file)
			}
		}
		if err == nil && next < 0 {
			next, err = unix.Openat(at, name, flags, 0)
		}
		closeFD(at)
		if err != nil {
			return -1, fmt.Errorf("%s: %w", name, err)
		}
		at = next
	}
	return at, nil
}

// chroot mounts a part of the machine read-only.
func (t *tree) chroot(b Bind) error {
	var st unix.Stat_t
	if err := unix.Lstat(b.Source, &st); err != nil {
		return nil // machines differ, so missing sources are skipped
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return t.copyLink(b)
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return fmt.Errorf("mount %s for the task: it is neither a directory nor a file", b.Source)
	}
	b.ReadOnly = true
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && t.hasOwn(b.Target) {
		return t.merge(b)
	}
	return t.bind(b, noDevice)
}

// copyLink creates the same link, such as /bin, which on many machines is a link to
// usr/bin.
func (t *tree) copyLink(b Bind) error {
	to, err := os.Readlink(b.Source)
	if err != nil {
		return fmt.Errorf("show %s to the task: %w", b.Source, err)
	}
	clean := strings.TrimPrefix(filepath.Clean("/"+b.Target), "/")
	if dir := filepath.Dir(clean); dir != "." {
		if _, err := t.target(dir, true); err != nil {
			return err
		}
	}
	err = unix.Symlinkat(to, t.fd, clean)
	if err != nil && err != unix.EEXIST {
		return fmt.Errorf("create the link %s for the task: %w", b.Source, err)
	}
	return nil
}

// bind mounts a file, or a directory with all mounts below it.
func (t *tree) bind(b Bind, attributes uint64) error {
	source, err := unix.Open(b.Source, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("show %s to the task: %w", b.Source, err)
	}
	t.keep(source)
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return fmt.Errorf("show %s to the task: %w", b.Source, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return fmt.Errorf("mount %s for the task: it is a link, which is not followed; use its target", b.Source)
	}
	place, err := t.target(b.Target, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	if peer, ok := t.peers[b.Source]; ok && b.Propagation == "bidirectional" {
		delete(t.peers, b.Source) // a mount can be attached only once
		err = unix.MoveMount(peer, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
	} else {
		err = unix.Mount(procFD(source), place, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", b.Source, b.Target, err)
	}
	if b.ReadOnly {
		attributes |= readOnly
	}
	propagation := uint64(unix.MS_PRIVATE)
	switch b.Propagation {
	case "host-to-task":
		propagation = unix.MS_SLAVE
	case "bidirectional":
		propagation = unix.MS_SHARED
	}
	return t.change(b.Target, attributes, propagation)
}

// change sets attributes of the mount at a path and of the mounts below it.
func (t *tree) change(path string, attributes, propagation uint64) error {
	// Opened again, because a descriptor from before the mount refers to what the mount
	// covers.
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(t.fd, strings.TrimPrefix(filepath.Clean("/"+path), "/"), how)
	if err == nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes, Propagation: propagation})
		closeFD(fd)
	}
	if err != nil {
		return fmt.Errorf("protect the mount on %s: %w", path, err)
	}
	return nil
}

// cover hides what is at a path: a directory with an empty one, a file with
// /dev/null. It ignores paths that do not exist.
func (t *tree) cover(path string) error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(t.fd, strings.TrimPrefix(filepath.Clean("/"+path), "/"), how)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hide %s from the task: %w", path, err)
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mount("tmpfs", procFD(fd), "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,nr_inodes=2,mode=0555")
	} else if err == nil {
		err = unix.Mount("/dev/null", procFD(fd), "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("hide %s from the task: %w", path, err)
	}
	return nil
}

// names mounts the task's own resolv.conf and hosts over the machine's.
func (t *tree) names() error {
	dir := filepath.Join(t.cfg.Scratch, "etc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the task's resolv.conf and hosts: %w", err)
	}
	var own []Bind
	covered := true
	for _, f := range []struct{ name, content string }{{"resolv.conf", t.cfg.ResolvConf}, {"hosts", t.cfg.Hosts}} {
		if f.content == "" {
			continue
		}
		one := Bind{Source: filepath.Join(dir, f.name), Target: "/etc/" + f.name, ReadOnly: true}
		if err := os.WriteFile(one.Source, []byte(f.content), 0o644); err != nil {
			return fmt.Errorf("write the task's %s: %w", f.name, err)
		}
		own, covered = append(own, one), covered && t.covers(one.Target)
	}
	if !covered {
		return t.layer(dir)
	}
	for _, one := range own {
		if err := t.bind(one, noDevice|noSetuid); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether a file can be mounted on a path of the tree: there is a file, or it can
// be made. In a directory of the machine it cannot, nor on a link that leads nowhere.
func (t *tree) covers(path string) bool {
	place, err := t.target(path, false)
	var st unix.Stat_t
	return err == nil && unix.Stat(place, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// layer shows the files of a directory in /etc of the machine, which lacks some of them.
func (t *tree) layer(dir string) error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	etc, err := unix.Openat2(t.fd, "etc", how)
	if err != nil {
		return fmt.Errorf("open /etc of the task: %w", err)
	}
	t.keep(etc)
	if err := unix.Mount("overlay", procFD(etc), "overlay", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, "lowerdir="+dir+":"+procFD(etc)); err != nil {
		return fmt.Errorf("give the task a resolv.conf or hosts, which /etc of this machine lacks: %w; make the files, which may be empty", err)
	}
	return nil
}

// enter makes the tree the root directory of the thread and of its children.
func (t *tree) enter() error {
	// The root itself becomes read-only last, because mount points had to be created in
	// it.
	err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: readOnly | noDevice | noSetuid})
	if err != nil {
		return fmt.Errorf("protect the root directory: %w", err)
	}
	if err := unix.Chdir(t.root); err != nil {
		return fmt.Errorf("enter the root directory: %w", err)
	}
	if t.cfg.NoPivotRoot {
		err = unix.Mount(t.root, "/", "", unix.MS_MOVE, "")
		if err == nil {
			err = unix.Chroot(".")
		}
	} else if err = unix.PivotRoot(".", "."); err == nil {
		// The old root is now mounted over the new one.
		err = unix.Unmount(".", unix.MNT_DETACH)
	} else if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w; on a machine that runs from a ram disk the agent's plugin config needs no_pivot_root = true", err)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("make the root directory the task's: %w", err)
	}
	return nil
}
