// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

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
	path string // path in /dev, or the path inside the sandbox
	mode uint32
	rdev uint64
	uid  int
	gid  int
}

// standard returns the device nodes that every task has.
func standard() []node {
	var out []node
	for name, numbers := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
	} {
		out = append(out, node{path: "/dev/" + name, mode: unix.S_IFCHR | 0o666, rdev: unix.Mkdev(numbers[0], numbers[1])})
	}
	return out
}

// nodesOf returns the device nodes of one of the task's devices: the device itself
// or, if it is a directory, the device files in it. It returns nothing if the device
// does not exist.
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
	entries, _ := os.ReadDir(d.Source) // nothing to add if it is not a directory
	for _, e := range entries {
		add(filepath.Join(d.Source, e.Name()), filepath.Join(to, e.Name()))
	}
	return out
}

// dev creates /dev: the standard nodes, pseudo-terminals, shared memory, message
// queues if the IPC namespace is private, and the task's devices.
func (t *tree) dev() error {
	place, err := t.target("/dev", true)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	dir := filepath.Join(t.root, "dev")
	// The names are constants and the file system is new, so plain paths are safe.
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
	if allDevices(t.cfg.Devices) {
		return t.bind(Bind{Source: machineDevices, Target: machineDevices, Propagation: "host-to-task"}, noSetuid)
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

const machineDevices = "/dev"

// allDevices reports whether the task gets the /dev of the machine as it is, so that it finds
// devices that are made while it runs.
func allDevices(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool { return d.Source == machineDevices && d.Target == machineDevices })
}

// onlyTop makes the mount at path read-only, but not the mounts below it.
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

// device adds one of the task's devices. Below /dev it creates a node; elsewhere it
// bind-mounts the device, since device files work only on mounts without nodev.
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
		return nil // every task has it anyway
	}
	if err == nil {
		err = unix.Chmod(path, n.mode&0o7777) // restore the bits that the umask removed
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
func (t *tree) sys(groups *groups) error {
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
	if len(groups.dirs) == 1 && groups.unified >= 0 {
		return t.bind(Bind{Source: groups.dirs[0], Target: root, ReadOnly: true}, noDevice|noSetuid)
	}
	if err := unix.Mount("tmpfs", filepath.Join(t.root, root), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0755"); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	for _, dir := range groups.dirs {
		// Use the same directory name as on the machine, where hierarchies are mounted here.
		rel, ok := strings.CutPrefix(filepath.Clean(dir), root+"/")
		if !ok {
			continue // this machine mounts it elsewhere: the task is in the cgroup, but does not see it
		}
		hierarchy, _, _ := strings.Cut(rel, "/")
		if err := t.bind(Bind{Source: dir, Target: filepath.Join(root, hierarchy), ReadOnly: true}, noDevice|noSetuid); err != nil {
			return err
		}
	}
	return t.onlyTop(root)
}

// The parts of /proc that belong to the machine and not to the task.
var (
	hiddenProc = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/sysrq-trigger", "/proc/kallsyms", "/proc/kmsg", "/proc/config.gz",
	}
	protectedProc = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"}
)

// proc protects /proc after it was mounted.
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
