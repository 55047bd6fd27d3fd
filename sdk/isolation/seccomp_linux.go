// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The filter returns EPERM for a known system call that is not allowed, and ENOSYS
// for a call that is newer than the table, so that C libraries fall back to an older
// one, and for calls of another architecture. Capabilities and namespaces already
// limit what calls can do; the filter reduces the kernel's attack surface.

// cloneNamespaces are clone's flags for new namespaces. A task must not create them: a user
// namespace would give it capabilities over new namespaces of all other kinds.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Offsets in struct seccomp_data.
const (
	dataNr     = 0
	dataArch   = 4
	dataArg0Lo = 16
	dataArg1Lo = 24
)

const (
	opLoad   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opAtMost = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K // with the branches swapped
	opAny    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opReturn = unix.BPF_RET | unix.BPF_K

	retAllow = 0x7fff0000
	retErrno = 0x00050000
)

// filter builds the seccomp filter of a task that has the given capabilities.
func filter(caps []int) []unix.SockFilter {
	var f []unix.SockFilter
	emit := func(code uint16, jt, jf uint8, k uint32) {
		f = append(f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	fail := func(errno unix.Errno) uint32 { return retErrno | uint32(errno) }

	emit(opLoad, 0, 0, dataArch)
	emit(opEqual, 1, 0, auditArch)
	emit(opReturn, 0, 0, fail(unix.ENOSYS))
	emit(opLoad, 0, 0, dataNr)
	// Numbers above the table are too new or, with bit 30 set, x32 calls of amd64.
	emit(opAtMost, 0, 1, newestSyscall)
	emit(opReturn, 0, 0, fail(unix.ENOSYS))
	if !hasCap(caps, unix.CAP_SYS_ADMIN) {
		// clone3 passes its flags in memory, which the filter cannot read. With ENOSYS, C
		// libraries use clone.
		emit(opEqual, 0, 1, unix.SYS_CLONE3)
		emit(opReturn, 0, 0, fail(unix.ENOSYS))
		emit(opEqual, 0, 4, unix.SYS_CLONE)
		emit(opLoad, 0, 0, dataArg0Lo)
		emit(opAny, 0, 1, cloneNamespaces)
		emit(opReturn, 0, 0, fail(unix.EPERM))
		emit(opReturn, 0, 0, retAllow)
	}
	refuseArgument(emit, unix.SYS_SOCKET, dataArg0Lo, unix.AF_VSOCK, unix.AF_ALG)
	// Input that a task injects into a terminal would be read by the next user of the
	// terminal.
	refuseArgument(emit, unix.SYS_IOCTL, dataArg1Lo, unix.TIOCSTI, tioclinux)
	emit(opEqual, 0, 8, unix.SYS_PERSONALITY)
	emit(opLoad, 0, 0, dataArg0Lo)
	for i, persona := range []uint32{0, 8, 0x20000, 0x20008, 0xffffffff} {
		emit(opEqual, uint8(5-i), 0, persona)
	}
	emit(opReturn, 0, 0, fail(unix.EPERM))
	emit(opReturn, 0, 0, retAllow)
	for _, r := range ranges(allowed(caps)) {
		// A number below this range is not allowed, since it is below all later ranges,
		// too.
		emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 2, r[0])
		emit(opAtMost, 1, 0, r[1])
		emit(opReturn, 0, 0, retAllow)
	}
	emit(opReturn, 0, 0, fail(unix.EPERM))
	return f
}

const tioclinux = 0x541c

// refuseArgument emits code for one call: EPERM if its argument is one of two
// values, otherwise allow.
func refuseArgument(emit func(uint16, uint8, uint8, uint32), call uint32, arg uint32, a, b uint32) {
	emit(opEqual, 0, 5, call)
	emit(opLoad, 0, 0, arg)
	emit(opEqual, 1, 0, a)
	emit(opEqual, 0, 1, b)
	emit(opReturn, 0, 0, retErrno|uint32(unix.EPERM))
	emit(opReturn, 0, 0, retAllow)
}

func hasCap(caps []int, c int) bool {
	for _, have := range caps {
		if have == c {
			return true
		}
	}
	return false
}

// allowed marks the calls that a task with these capabilities may make.
func allowed(caps []int) [newestSyscall + 1]bool {
	var ok [newestSyscall + 1]bool
	mark := func(calls []uint32) {
		for _, nr := range calls {
			ok[nr] = true
		}
	}
	mark(commonSyscalls)
	mark(archSyscalls)
	for c, calls := range capSyscalls {
		if hasCap(caps, c) {
			mark(calls)
		}
	}
	return ok
}

// ranges returns the ranges of allowed numbers in ascending order.
func ranges(ok [newestSyscall + 1]bool) [][2]uint32 {
	var out [][2]uint32
	for nr := uint32(0); nr <= newestSyscall; nr++ {
		switch {
		case !ok[nr]:
		case nr > 0 && ok[nr-1]:
			out[len(out)-1][1] = nr
		default:
			out = append(out, [2]uint32{nr, nr})
		}
	}
	return out
}

// addFilter puts the filter into a program and returns the address of its
// struct sock_fprog.
func (p *program) addFilter(f []unix.SockFilter) uintptr {
	raw := make([]byte, 0, 8*len(f))
	for _, i := range f {
		raw = binary.LittleEndian.AppendUint16(raw, i.Code)
		raw = append(raw, i.Jt, i.Jf)
		raw = binary.LittleEndian.AppendUint32(raw, i.K)
	}
	return p.words(uint64(len(f)), uint64(p.bytes(raw)))
}
