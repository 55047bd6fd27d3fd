// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refusedSyscalls are the calls that no collector and no device plugin needs: they
// change the machine, look into other processes, or have been the way into the kernel.
// Those that need a capability are refused to root as well.
var refusedSyscalls = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CHROOT, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME,
	unix.SYS_DELETE_MODULE, unix.SYS_FANOTIFY_INIT, unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK,
	unix.SYS_INIT_MODULE, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_URING_SETUP, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOVE_PAGES, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PTRACE, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF,
	unix.SYS_SWAPON, unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}

// namespaceFlags are clone's flags for new namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// The offsets in the kernel's struct seccomp_data, of little-endian processors.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetFirst  = 16 // the first argument's lower half
)

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var permit = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// filter is the program that decides about each call. Calls of another architecture
// are refused as unknown, because their numbers mean something else.
func (r *Rights) filter() []bpf.Instruction {
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		refuse(unix.ENOSYS),
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: alienSyscalls, SkipTrue: 1},
		refuse(unix.ENOSYS),
	}
	refused := []uint32{unix.SYS_IO_URING_SETUP} // it could make sockets
	if r.RestrictSyscalls {
		refused = slices.Concat(refusedSyscalls, archRefused)
		out = append(out,
			// clone3 has its flags in memory, where a filter cannot read them. After
			// ENOSYS, C libraries use clone.
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
			refuse(unix.ENOSYS),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
			bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaceFlags, SkipTrue: 1},
			refuse(unix.EPERM),
			permit,
		)
	}
	if !r.Network {
		out = append(out,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_SOCKET, SkipTrue: 5},
			bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: 1},
			refuse(unix.EACCES),
			permit,
		)
	}
	for _, nr := range refused {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, refuse(unix.EPERM))
	}
	return append(out, permit)
}

// assembled returns the filter as the kernel takes it.
func (r *Rights) assembled() ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(r.filter())
	if err != nil {
		return nil, fmt.Errorf("assemble the filter: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return code, nil
}

// restrictSyscalls sets the filter of the calling thread.
func (r *Rights) restrictSyscalls() error {
	if auditArch == 0 {
		return nil
	}
	code, err := r.assembled()
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// hasSeccomp reports whether the kernel filters system calls of this processor.
var hasSeccomp = sync.OnceValue(func() bool {
	if auditArch == 0 {
		return false
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
})
