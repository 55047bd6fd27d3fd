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

// procStat is what we use of /proc/PID/stat.
type procStat struct {
	pid, ppid, session int
	utime, stime       uint64 // in clock ticks, those of waited-for children included
	start              uint64 // in clock ticks since boot
	rssPages           uint64
	zombie             bool
	status             uint64 // of a zombie, as wait tells it
}

// clockTicks is USER_HZ, which is 100 on every architecture that Go runs on.
const clockTicks = 100

func readStat(pid int) (procStat, error) {
	// Not os.ReadFile, which asks for the size and reads twice: this is read for
	// every process of a machine, many times an hour.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return procStat{}, err
	}
	var buf [2048]byte // it has 52 fields
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
	// The name may hold anything, so the fields count from its last bracket.
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("read the state of process %d: no name in %q", pid, raw)
	}
	f := strings.Fields(raw[end+1:])
	if len(f) < 50 {
		return procStat{}, fmt.Errorf("read the state of process %d: %d fields", pid, len(f))
	}
	num := func(field int) uint64 { // numbered as in proc(5)
		n, _ := strconv.ParseUint(f[field-3], 10, 64) // a field that is no number counts as 0
		return n
	}
	return procStat{
		pid: pid, ppid: int(num(4)), session: int(num(6)),
		utime: num(14) + num(16), stime: num(15) + num(17), start: num(22), rssPages: num(24), zombie: f[0] == "Z", status: num(52),
	}, nil
}

// sigchld is the part of siginfo_t that waitid fills.
type sigchld struct{ pid, status, code int }

// waitPeek returns the end of a child without reaping it. pid 0: none ended yet.
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

// reap removes the zombie of a child whose end waitPeek has told.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if err != unix.EINTR {
			return // reaped, or not ours any more: nothing left to do
		}
	}
}

// exit turns what waitid says into an Exit.
func (s sigchld) exit() Exit {
	const exited = 1 // CLD_EXITED; the others are ends by a signal
	if s.code == exited {
		return Exit{Code: s.status}
	}
	return Exit{Code: 128 + s.status, Signal: s.status}
}

// pidfdExit asks the kernel for the end of a process that another has reaped
// (Linux 6.15 and later).
func pidfdExit(pidfd int) (Exit, bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return Exit{}, false
	}
	return exitOf(unix.WaitStatus(info.Exit_code)), true
}

// zombieExit reads the end of a process that its parent has not reaped yet.
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

// openProcess returns a pidfd of the process that has this pid and start time;
// a process that reuses the pid is not it.
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

// bootID names this run of the kernel: pids of another one mean nothing.
func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// closeFD closes a descriptor that may be unset. Its error tells nothing we could
// act on: the descriptor is gone either way.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
