// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/procfs"
)

// sigchld is the part of siginfo_t that waitid fills.
type sigchld struct{ pid, status, code int }

// waitPeek returns the exit of a child without reaping it. pid is 0 if none has
// ended.
func waitPeek(idType, id, options int) (sigchld, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return sigchld{}, err
		}
		break
	}
	// After three ints the union starts at the alignment of a pointer:
	// pid, uid, status.
	base := unsafe.Sizeof(uintptr(0)) * 2
	if unsafe.Sizeof(uintptr(0)) == 4 {
		base = 12
	}
	at := func(off uintptr) int {
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), base+off)))
	}
	return sigchld{pid: at(0), status: at(8), code: int(info.Code)}, nil
}

// reap reaps a child whose exit waitPeek has returned.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if err != unix.EINTR {
			return // it was reaped, or is not our child any more
		}
	}
}

// exit converts the result of waitid.
func (s sigchld) exit() Exit {
	const exited = 1 // CLD_EXITED; the other codes are exits by a signal
	if s.code == exited {
		return Exit{Code: s.status}
	}
	return Exit{Code: 128 + s.status, Signal: s.status}
}

// pidfdExit asks the kernel for the exit of a process that another process has
// reaped (Linux 6.15 and later).
func pidfdExit(pidfd int) (Exit, bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return Exit{}, false
	}
	return exitOf(unix.WaitStatus(info.Exit_code)), true
}

// zombieExit reads the exit of a process that its parent has not reaped yet.
func zombieExit(pid int, start uint64) (Exit, bool) {
	st, err := procfs.Read(pid)
	if err != nil || st.Start != start || !st.Zombie {
		return Exit{}, false
	}
	return exitOf(unix.WaitStatus(st.Exit)), true
}

func exitOf(ws unix.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return Exit{Code: ws.ExitStatus()}
}

// openProcess returns a pidfd of the process with this pid and start time. It fails
// if another process has reused the pid.
func openProcess(pid int, start uint64) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("open process %d: %w", pid, err)
	}
	unix.CloseOnExec(fd)
	st, err := procfs.Read(pid)
	if err == nil && st.Start == start {
		return fd, nil
	}
	closeFD(fd)
	return -1, fmt.Errorf("open process %d: %w", pid, unix.ESRCH)
}

// bootID identifies this boot. Pids of another boot mean nothing.
func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// closeFD closes a descriptor, which may be -1. Its error is ignored, since the
// descriptor is closed in any case.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// readIO returns what a process has read from and written to storage, together with the
// children that it has waited for; nil if that cannot be read.
func readIO(pid int) *IO {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/io", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var buf [512]byte // enough for its 7 lines
	n, err := unix.Read(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return nil
	}
	out := &IO{}
	for line := range strings.Lines(string(buf[:n])) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		bytes, _ := strconv.ParseUint(value, 10, 64) // the kernel writes only digits
		switch name {
		case "read_bytes":
			out.Read = bytes
		case "write_bytes":
			out.Written = bytes
		}
	}
	return out
}
