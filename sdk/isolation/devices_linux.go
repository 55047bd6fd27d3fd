// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deviceRule allows access to a device. Minor -1 matches every minor number, and major -1
// every device of the kind.
type deviceRule struct {
	block        bool
	major, minor int64
	permissions  string // a subset of "rwm"
}

// String formats the rule for the v1 devices controller.
func (r deviceRule) String() string {
	kind, minor := "c", "*"
	if r.block {
		kind = "b"
	}
	if r.minor >= 0 {
		minor = fmt.Sprint(r.minor)
	}
	if r.major < 0 {
		return fmt.Sprintf("%s *:* %s", kind, r.permissions)
	}
	return fmt.Sprintf("%s %d:%s %s", kind, r.major, minor, r.permissions)
}

// deviceRules returns the devices that a task may use: the standard nodes,
// terminals, and its own devices. It can neither create nor open others.
func deviceRules(devices []Device) []deviceRule {
	var rules []deviceRule
	for _, n := range standard() {
		rules = append(rules, deviceRule{major: int64(unix.Major(n.rdev)), minor: int64(unix.Minor(n.rdev)), permissions: "rwm"})
	}
	const multiplexer, terminals = 2, 136
	rules = append(rules, deviceRule{major: 5, minor: multiplexer, permissions: "rwm"}, deviceRule{major: terminals, minor: -1, permissions: "rwm"})
	if allDevices(devices) {
		return []deviceRule{{major: -1, minor: -1, permissions: "rwm"}, {block: true, major: -1, minor: -1, permissions: "rwm"}}
	}
	for _, d := range devices {
		for _, n := range nodesOf(d) {
			rules = append(rules, deviceRule{
				block: n.mode&unix.S_IFMT == unix.S_IFBLK, major: int64(unix.Major(n.rdev)), minor: int64(unix.Minor(n.rdev)), permissions: d.Permissions,
			})
		}
	}
	return rules
}

// The kernel's constants for device programs.
const (
	devBlock = 1
	devChar  = 2
	devMknod = 1
	devRead  = 2
	devWrite = 4
)

// deviceProgram builds the eBPF program that decides for a v2 cgroup whether a
// device may be used. Its argument is (access << 16
// kind, major, minor).
func deviceProgram(rules []deviceRule) []byte {
	var p []byte
	emit := func(code, dst, src byte, off int16, imm int32) {
		p = append(p, code, src<<4|dst)
		p = binary.NativeEndian.AppendUint16(p, uint16(off))
		p = binary.NativeEndian.AppendUint32(p, uint32(imm))
	}
	const (
		load, move, and, shift     = 0x61, 0xbc, 0x54, 0x74 // 32-bit instructions
		notEqual, anyBit, set, end = 0x55, 0x45, 0xb7, 0x95
		result, argument           = 0, 1
		kind, access, major, minor = 2, 3, 4, 5
	)
	emit(load, kind, argument, 0, 0)
	emit(move, access, kind, 0, 0)
	emit(and, kind, 0, 0, 0xffff)
	emit(shift, access, 0, 0, 16)
	emit(load, major, argument, 4, 0)
	emit(load, minor, argument, 8, 0)
	for _, r := range rules {
		refused := int32(devMknod | devRead | devWrite)
		for _, c := range r.permissions {
			refused &^= map[rune]int32{'m': devMknod, 'r': devRead, 'w': devWrite}[c]
		}
		want := int32(devChar)
		if r.block {
			want = devBlock
		}
		left := int16(3) // instructions that follow before the next rule
		for _, number := range []int64{r.major, r.minor} {
			if number >= 0 {
				left++
			}
		}
		emit(notEqual, kind, 0, left, want)
		emit(anyBit, access, 0, left-1, refused)
		if r.major >= 0 {
			emit(notEqual, major, 0, left-2, int32(r.major))
		}
		if r.minor >= 0 {
			emit(notEqual, minor, 0, left-3, int32(r.minor))
		}
		emit(set, result, 0, 0, 1)
		emit(end, 0, 0, 0, 0)
	}
	emit(set, result, 0, 0, 0)
	emit(end, 0, 0, 0, 0)
	return p
}

// LimitDevices makes processes of a cgroup unable to use devices other than the standard
// ones, terminals and the given ones, with their permissions. It uses the first of dirs
// that can limit devices: a cgroup of version 2, or of the controller "devices" of version
// 1. If there is none, or the kernel does not support or forbids it, LimitDevices does
// nothing. Without it a sandbox still has only these devices in its /dev, and everything
// that its task can write to is mounted nodev, but a device then has the permissions of its
// file.
func LimitDevices(dirs []string, devices []Device) error {
	for _, dir := range dirs {
		if unix.Access(filepath.Join(dir, "devices.allow"), unix.F_OK) == nil {
			return allowDevices(dir, deviceRules(devices))
		}
	}
	groups, err := openGroups(dirs)
	if err != nil {
		return err
	}
	defer groups.close()
	if groups.unified < 0 {
		return nil
	}
	return limitDevices(groups.unified, deviceRules(devices))
}

// allowDevices writes the rules to a v1 cgroup.
func allowDevices(dir string, rules []deviceRule) error {
	_ = os.WriteFile(filepath.Join(dir, "devices.deny"), []byte("a"), 0) // fails in a group that already allows only some devices
	for _, rule := range rules {
		if err := os.WriteFile(filepath.Join(dir, "devices.allow"), []byte(rule.String()), 0); err != nil {
			return fmt.Errorf("limit the task's devices: allow %q in %s: %w; the machine's kernel must offer it", rule, dir, err)
		}
	}
	return nil
}

// limitDevices attaches the program to a v2 cgroup. If the kernel does not support
// such programs or forbids them, it does nothing. Access is then limited by what
// /dev contains, and all writable mounts are nodev.
func limitDevices(cgroup int, rules []deviceRule) error {
	const (
		load, attach            = 5, 8
		kindDevice, typeDevice  = 15, 6
		instruction, multiFlag  = 8, 2
		loadLength, attachBytes = 48, 16
	)
	program, licence := deviceProgram(rules), []byte("MPL-2.0\x00")
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&program[0])
	pin.Pin(&licence[0])
	attr := make([]byte, 0, 128)
	attr = binary.NativeEndian.AppendUint32(attr, kindDevice)
	attr = binary.NativeEndian.AppendUint32(attr, uint32(len(program)/instruction))
	attr = binary.NativeEndian.AppendUint64(attr, uint64(uintptr(unsafe.Pointer(&program[0]))))
	attr = binary.NativeEndian.AppendUint64(attr, uint64(uintptr(unsafe.Pointer(&licence[0]))))
	attr = append(attr, make([]byte, loadLength-len(attr))...)
	fd, errno := bpf(load, attr)
	if errno == unix.ENOSYS || errno == unix.EINVAL || errno == unix.EPERM {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("load the filter of devices: %w", errno)
	}
	defer closeFD(fd)
	attr = attr[:0]
	for _, v := range []uint32{uint32(cgroup), uint32(fd), typeDevice, multiFlag} {
		attr = binary.NativeEndian.AppendUint32(attr, v)
	}
	if _, errno := bpf(attach, attr[:attachBytes]); errno != 0 {
		return fmt.Errorf("attach the filter of devices to the task's cgroup: %w", errno)
	}
	return nil
}

// bpfTries is the number of attempts if a signal interrupts the call.
const bpfTries = 100

// bpf makes the bpf system call. Verifying a program fails with EAGAIN if a signal
// is pending, and the Go runtime may send itself signals at any time.
func bpf(command uintptr, attr []byte) (int, unix.Errno) {
	for try := 1; ; try++ {
		n, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)))
		if errno != unix.EAGAIN && errno != unix.EINTR || try == bpfTries {
			return int(n), errno
		}
	}
}
