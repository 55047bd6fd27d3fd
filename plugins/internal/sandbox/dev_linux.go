// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// node is a device file.
type node struct {
	path string // in /dev, or where the task sees it
	mode uint32
	rdev uint64
	uid  int
	gid  int
}

// standard are the nodes that every task has.
func standard() []node {
	var out []node
	for name, numbers := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
	} {
		out = append(out, node{path: "/dev/" + name, mode: unix.S_IFCHR | 0o666, rdev: unix.Mkdev(numbers[0], numbers[1])})
	}
	return out
}

// nodesOf are the device files that a device of a task stands for: itself, or
// those in its directory. What is not there is not listed.
func nodesOf(d Device) []node {
	var out []node
	add := func(from, to string) {
		var st unix.Stat_t
		if unix.Stat(from, &st) != nil {
			return
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
			out = append(out, node{path: to, mode: st.Mode, rdev: st.Rdev, uid: int(st.Uid), gid: int(st.Gid)})
		}
	}
	to := d.Target
	if to == "" {
		to = d.Source
	}
	add(d.Source, to)
	if len(out) > 0 {
		return out
	}
	entries, _ := os.ReadDir(d.Source) // no directory: nothing
	for _, e := range entries {
		add(filepath.Join(d.Source, e.Name()), filepath.Join(to, e.Name()))
	}
	return out
}

// dev makes /dev: the standard nodes, terminals, shared memory, message queues
// of a private ipc namespace, and the task's devices.
func (t *tree) dev() error {
	place, err := t.target("/dev", true)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	dir := filepath.Join(t.root, "dev")
	// The names are ours and the file system is new: plain paths are safe.
	for _, n := range standard() {
		if err := t.makeNode(n); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlink(to, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	mounts := []struct{ name, kind, data string }{
		{"pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"shm", "tmpfs", "size=64m,mode=1777"},
		{"mqueue", "mqueue", ""},
	}
	if t.cfg.HostIPC {
		mounts = mounts[:1]
		if err := t.bind(Bind{Source: "/dev/shm", Target: "/dev/shm"}, noDevice|noSetuid); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if err := unix.Mkdir(filepath.Join(dir, m.name), 0o755); err != nil {
			return fmt.Errorf("make /dev/%s: %w", m.name, err)
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NOEXEC)
		if m.kind != "devpts" {
			flags |= unix.MS_NODEV
		}
		if err := unix.Mount(m.kind, filepath.Join(dir, m.name), m.kind, flags, m.data); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", m.name, err)
		}
	}
	for _, d := range t.cfg.Devices {
		nodes := nodesOf(d)
		if len(nodes) == 0 {
			return fmt.Errorf("device %s: there is no such device on this machine", d.Source)
		}
		for _, n := range nodes {
			if err := t.device(d, n); err != nil {
				return err
			}
		}
	}
	return t.onlyTop("/dev")
}

// onlyTop makes the mount at path read-only, not those below it.
func (t *tree) onlyTop(path string) error {
	fd, err := unix.Open(filepath.Join(t.root, path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: readOnly})
		closeFD(fd)
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", path, err)
	}
	return nil
}

// device shows one of the task's devices: below /dev as a node of its own, else
// as a mount, since device files do not work elsewhere.
func (t *tree) device(d Device, n node) error {
	if rel, ok := strings.CutPrefix(filepath.Clean(n.path), "/dev/"); ok {
		if dir := filepath.Dir(rel); dir != "." {
			if _, err := t.target("/dev/"+dir, true); err != nil {
				return err
			}
		}
		return t.makeNode(n)
	}
	return t.bind(Bind{Source: d.Source, Target: n.path}, noSetuid)
}

func (t *tree) makeNode(n node) error {
	path := filepath.Join(t.root, n.path)
	err := unix.Mknod(path, n.mode, int(n.rdev))
	if errors.Is(err, unix.EEXIST) && slices.ContainsFunc(standard(), func(s node) bool { return s.path == n.path }) {
		return nil // every task has it
	}
	if err == nil {
		err = unix.Chmod(path, n.mode&0o7777) // what the umask took away
	}
	if err == nil {
		err = unix.Chown(path, n.uid, n.gid)
	}
	if err != nil {
		return fmt.Errorf("make the device %s: %w", n.path, err)
	}
	return nil
}

// sys mounts /sys read-only, with the task's own cgroups in it.
func (t *tree) sys(group *Group) error {
	place, err := t.target("/sys", true)
	if err != nil {
		return err
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("sysfs", place, "sysfs", flags, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	for _, path := range []string{"/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security"} {
		if err := t.cover(path); err != nil {
			return err
		}
	}
	const root = "/sys/fs/cgroup"
	if paths := group.Paths(); len(paths) == 1 && paths[0] == group.Dir {
		return t.bind(Bind{Source: group.Dir, Target: root, ReadOnly: true}, noDevice|noSetuid)
	}
	if err := unix.Mount("tmpfs", filepath.Join(t.root, root), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0755"); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	for _, dir := range group.Paths() {
		// As on the machine: the name of the hierarchy's mount.
		hierarchy := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		if err := t.bind(Bind{Source: dir, Target: filepath.Join(root, hierarchy), ReadOnly: true}, noDevice|noSetuid); err != nil {
			return err
		}
	}
	return t.onlyTop(root)
}

// What of /proc is the machine's and not the task's.
var (
	hiddenProc = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/sysrq-trigger", "/proc/kallsyms", "/proc/kmsg", "/proc/config.gz",
	}
	protectedProc = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"}
)

// proc protects /proc once it is mounted.
func (t *tree) proc() error {
	for _, path := range hiddenProc {
		if err := t.cover(path); err != nil {
			return err
		}
	}
	for _, path := range protectedProc {
		full := filepath.Join(t.root, path)
		if unix.Access(full, unix.F_OK) != nil {
			continue
		}
		if err := unix.Mount(full, full, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("protect %s: %w", path, err)
		}
		if err := t.change(path, readOnly|noDevice|noSetuid, 0); err != nil {
			return err
		}
	}
	return nil
}
