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
)

// procStat contains the fields of /proc/PID/stat that we use.
type procStat struct {
	pid, ppid, session int
	utime, stime       uint64 // in clock ticks, including waited-for children
	ownUser, ownSystem uint64 // in clock ticks, without them
	start              uint64 // in clock ticks since boot
	rssPages           uint64
	zombie             bool
	status             uint64 // of a zombie: its wait status
}

// clockTicks is USER_HZ, which is 100 on every architecture that Go runs on.
const clockTicks = 100

func readStat(pid int) (procStat, error) {
	// os.ReadFile would make two additional system calls. This is called for every
	// process of a machine, many times an hour.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return procStat{}, err
	}
	var buf [2048]byte // enough for its 52 fields
	n, err := unix.Read(fd, buf[:])
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, string(buf[:n]))
}

func parseStat(pid int, raw string) (procStat, error) {
	// The name may contain any character, so the fields are counted from the last
	// parenthesis.
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("read the state of process %d: no name in %q", pid, raw)
	}
	f := strings.Fields(raw[end+1:])
	if len(f) < 50 {
		return procStat{}, fmt.Errorf("read the state of process %d: %d fields", pid, len(f))
	}
	num := func(field int) uint64 { // numbered as in proc(5)
		n, _ := strconv.ParseUint(f[field-3], 10, 64) // an invalid field counts as 0
		return n
	}
	return procStat{
		pid: pid, ppid: int(num(4)), session: int(num(6)),
		utime: num(14) + num(16), stime: num(15) + num(17), ownUser: num(14), ownSystem: num(15), start: num(22), rssPages: num(24), zombie: f[0] == "Z", status: num(52),
	}, nil
}

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
	st, err := readStat(pid)
	if err != nil || st.start != start || !st.zombie {
		return Exit{}, false
	}
	return exitOf(unix.WaitStatus(st.status)), true
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
	st, err := readStat(pid)
	if err == nil && st.start == start {
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
