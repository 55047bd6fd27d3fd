// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Read returns what Linux says of a process. NotFound: there is none.
func Read(pid int) (Process, error) {
	// os.ReadFile would make two additional system calls. The supervisor of tasks calls
	// this for every process of a machine, many times an hour.
	var buf [2048]byte // enough for its 52 fields
	n, err := readOnce("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return Process{}, fmt.Errorf("read the state of process %d: %w", pid, classed(err))
	}
	return parse(pid, string(buf[:n]))
}

func classed(err error) error {
	if err == syscall.ENOENT || err == syscall.ESRCH {
		return errdefs.NotFoundf("it has ended")
	}
	return err
}

func readOnce(file string, buf []byte) (int, error) {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	n, err := syscall.Read(fd, buf)
	if closed := syscall.Close(fd); err == nil {
		err = closed
	}
	return n, err
}

// parse reads "PID (NAME) STATE PARENT ...", whose fields proc(5) lists.
func parse(pid int, raw string) (Process, error) {
	// The name may hold any character, so fields are counted from the last parenthesis.
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return Process{}, fmt.Errorf("read the state of process %d: no name in %q", pid, raw)
	}
	f := strings.Fields(raw[end+1:])
	if len(f) < 50 {
		return Process{}, fmt.Errorf("read the state of process %d: %d fields", pid, len(f))
	}
	num := func(field int) uint64 { // numbered as in proc(5)
		n, _ := strconv.ParseUint(f[field-3], 10, 64) // an invalid field counts as 0
		return n
	}
	return Process{
		PID: pid, Parent: int(num(4)), Group: int(num(5)), Session: int(num(6)),
		Zombie: f[0] == "Z", Exit: num(52), Start: num(22),
		User: num(14), System: num(15), UserWithChildren: num(14) + num(16), SystemWithChildren: num(15) + num(17),
		Resident: num(24),
	}, nil
}

// PIDs returns the processes of the machine that this one may see.
func PIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // the names that could be read are used
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
