// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// probeEnv makes this binary try to break out if it runs as a task.
const probeEnv = "DRIVEREXEC_PROBE"

// probes are attempts to break out, all of which must fail. The task makes the
// system calls itself, so that no checks of tools prevent them.
var probes = map[string]func() error{
	"mount a file system": func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
	"mount the root writable": func() error {
		return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	},
	"unmount a cover": func() error { return unix.Unmount("/proc/kmsg", unix.MNT_DETACH) },
	"open a new mount": func() error {
		_, err := unix.Fsopen("tmpfs", 0)
		return err
	},
	"make a user namespace": func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"make a user namespace by clone": func() error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return orNil(errno)
	},
	"make namespaces by clone3": func() error {
		args := unix.CLONE_NEWUSER
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), 0, 0)
		if errno == unix.EINVAL { // the call reached the check of its argument
			return nil
		}
		return orNil(errno)
	},
	"join a namespace of process 1": func() error {
		fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, 0)
	},
	"trace process 1":               func() error { return unix.PtraceSeize(1) },
	"read process 1's memory":       func() error { return openFor("/proc/1/mem", unix.O_RDONLY) },
	"reach process 1's root":        func() error { return openFor("/proc/1/root/etc", unix.O_RDONLY) },
	"use process 1's descriptors":   func() error { return openFor("/proc/1/fd/0", unix.O_RDONLY) },
	"set the machine's name":        func() error { return unix.Sethostname([]byte("mine")) },
	"set the clock":                 func() error { return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 1}) },
	"load a kernel module":          func() error { return unix.InitModule([]byte("x"), "") },
	"write a kernel setting":        func() error { return openFor("/proc/sys/kernel/core_pattern", unix.O_WRONLY) },
	"use the system request key":    func() error { return openUncovered("/proc/sysrq-trigger") },
	"read the kernel's memory":      func() error { return openFor("/dev/mem", unix.O_RDONLY) },
	"write a program":               func() error { return openFor("/usr/bin/mine", unix.O_CREAT|unix.O_WRONLY) },
	"write a setting":               func() error { return openFor("/etc/mine", unix.O_CREAT|unix.O_WRONLY) },
	"write the root directory":      func() error { return openFor("/mine", unix.O_CREAT|unix.O_WRONLY) },
	"write a device node directory": func() error { return openFor("/dev/mine", unix.O_CREAT|unix.O_WRONLY) },
	"leave the cgroup": func() error {
		return openFirst(unix.O_WRONLY, "/sys/fs/cgroup/memory/tasks", "/sys/fs/cgroup/cgroup.procs")
	},
	"raise the memory limit": func() error {
		return openFirst(unix.O_WRONLY, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max")
	},
	"open a device of its own making": func() error {
		if err := unix.Mknod("/tmp/kmem", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))); err != nil {
			return err
		}
		return openFor("/tmp/kmem", unix.O_RDONLY)
	},
	"open a disk of its own making": func() error {
		if err := unix.Mknod("/local/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))); err != nil {
			return err
		}
		return openFor("/local/disk", unix.O_RDONLY)
	},
	"open a file by its handle": func() error {
		handle := unix.NewFileHandle(1, make([]byte, 8))
		fd, err := unix.Open("/", unix.O_RDONLY, 0)
		if err == nil {
			_, err = unix.OpenByHandleAt(fd, handle, unix.O_RDONLY)
		}
		return err
	},
	"load a kernel program":     func() error { return call(unix.SYS_BPF, 0, 0, 0) },
	"watch the kernel":          func() error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"use io_uring":              func() error { return call(unix.SYS_IO_URING_SETUP, 1, 0, 0) },
	"handle page faults":        func() error { return call(unix.SYS_USERFAULTFD, 0, 0, 0) },
	"read the keyring":          func() error { return call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0) },
	"open a crypto socket":      func() error { _, err := unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0); return err },
	"type into a terminal":      func() error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0) },
	"call as a 32-bit program":  func() error { return call(0x40000000, 0, 0, 0) },
	"gain capabilities":         func() error { return gain() },
	"escape by a second chroot": func() error { return chrootTwice() },
}

func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func call(nr, a, b, c uintptr) error {
	_, _, errno := unix.Syscall(nr, a, b, c)
	return orNil(errno)
}

func openFor(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o644)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// openUncovered opens a file for writing. It fails if the file is /dev/null.
func openUncovered(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Rdev == unix.Mkdev(1, 3) {
		return errors.New("it is covered")
	}
	return openFor(path, unix.O_WRONLY)
}

// openFirst opens the first of the paths that exists.
func openFirst(flags int, paths ...string) error {
	err := error(unix.ENOENT)
	for _, p := range paths {
		if err = openFor(p, flags); !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return fmt.Errorf("PROBE IS VAIN: %w", err)
}

// gain tries to acquire every capability.
func gain() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := unix.CapUserData{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: ^uint32(0)}
	return unix.Capset(&header, &[]unix.CapUserData{all, all}[0])
}

// chrootTwice is the classic escape from a chroot: a directory stays open while the
// root moves below it. The parent directories must be our own root.
func chrootTwice() error {
	fd, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := unix.Mkdir("/tmp/deep", 0o755); err != nil {
		return err
	}
	if err := unix.Chroot("/tmp/deep"); err != nil {
		return err
	}
	if err := unix.Fchdir(fd); err != nil {
		return err
	}
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return openFor(os.Getenv("OUTSIDE"), unix.O_RDONLY)
}

// probe runs all probes and prints the results.
func probe() {
	names := make([]string, 0, len(probes))
	for name := range probes {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		err := probes[name]()
		if err == nil {
			fmt.Printf("ESCAPED: %s\n", name)
			continue
		}
		fmt.Printf("refused: %s: %v\n", name, err)
	}
	fmt.Println("all tried")
}

// tryEscapes runs the probes as a task.
func (c *cell) tryEscapes(name, user string) {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	task := c.task(name, map[string]any{"command": "/probe"})
	task.Env[probeEnv], task.Env["OUTSIDE"], task.User = "1", c.dir, user
	task.Resources.MemoryMB = 256
	task.Mounts = []driver.Mount{{HostPath: exe, TaskPath: "/probe", ReadOnly: true}}
	out, r := c.run(task)
	if !r.Successful() || !strings.Contains(out, "all tried") {
		c.t.Fatalf("the probes ended with %+v:\n%s", r, out)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "ESCAPED") || strings.Contains(line, "VAIN") {
			c.t.Errorf("as %s: %s", user, line)
		}
	}
	c.t.Log(out)
}

func TestNoTaskBreaksOutAsNobody(t *testing.T) { newCell(t, nil).tryEscapes("probe", "nobody") }

func TestNoTaskBreaksOutAsRoot(t *testing.T) { newCell(t, nil).tryEscapes("probe", "root") }
