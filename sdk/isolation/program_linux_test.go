// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && (amd64 || arm64)

package isolation

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// runProgram runs a program as a process and returns its exit status.
func runProgram(t *testing.T, p *program) (syscall.WaitStatus, error) {
	t.Helper()
	file, err := p.file("test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(file)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	pid, pidfd, err := p.run(file, []string{"test"}, -1, [3]int{fd, fd, fd}, &syscall.SysProcAttr{})
	if err != nil {
		return 0, err
	}
	closeFD(pidfd)
	var ws syscall.WaitStatus
	_, err = syscall.Wait4(pid, &ws, 0, nil)
	return ws, err
}

func TestAProgramCarriesOutItsCallsInOrder(t *testing.T) {
	var p program
	p.try("a failure that does not matter", unix.SYS_CLOSE, 12345)
	p.add("give the report a flag", unix.SYS_FCNTL, reportFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("run a shell", unix.SYS_EXECVE, p.string("/bin/sh"), p.strings([]string{"sh", "-c", `exit "$CODE"`}), p.strings([]string{"CODE=7"}))
	ws, err := runProgram(t, &p)
	if err != nil || ws.ExitStatus() != 7 {
		t.Fatalf("status %d, %v", ws.ExitStatus(), err)
	}
}

// A process with few open files would give its program one of the numbers at which the new
// process gets other files.
func TestTheFileOfAProgramIsNoneOfTheFilesOfItsProcess(t *testing.T) {
	var p program
	p.add("end", unix.SYS_EXIT_GROUP, 0)
	file, err := p.file("test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(file)
	if most := fileFD; file <= most {
		t.Errorf("it is descriptor %d, and a process gets up to %d", file, most)
	}
}

// Before a new process executes its program, syscall.ForkExec moves a pipe of its own to the
// numbers after the greatest of the files that the process gets.
func TestTheFileOfAProgramIsNotReplacedByThePipeOfTheFork(t *testing.T) {
	var p program
	p.add("end", unix.SYS_EXIT_GROUP, 7)
	file, err := p.file("test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(file)
	const last = 200 // no other descriptor of this process is near
	for _, fd := range []int{last, last + 1} {
		if err := unix.Dup3(file, fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer closeFD(fd)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(null)
	pid, pidfd, err := spawn(last+1, []string{"test"}, -1, []int{null, null, last}, &syscall.SysProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(pidfd)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 7 {
		t.Errorf("status %d, %v", ws.ExitStatus(), err)
	}
}

func TestTheCallThatFailsIsNamedWithItsError(t *testing.T) {
	var p program
	p.add("go to the root", unix.SYS_CHDIR, p.string("/"))
	p.add("go nowhere", unix.SYS_CHDIR, p.string("/no/such/directory"))
	p.add("not reached", unix.SYS_EXIT_GROUP, 0)
	_, err := runProgram(t, &p)
	var step *StepError
	if !errors.As(err, &step) || step.What != "go nowhere" || !errors.Is(err, unix.ENOENT) {
		t.Fatalf("error %v", err)
	}
}

func TestAProgramThatIsTooLargeIsRefused(t *testing.T) {
	var p program
	for range maxSteps + 1 {
		p.try("nothing", unix.SYS_GETPID)
	}
	if _, err := p.image(); err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Fatalf("error %v", err)
	}
}

// verdict evaluates a seccomp filter for a call, as the kernel does.
func verdict(t *testing.T, f []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data, nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var a uint32
	for pc := 0; pc < len(f); pc++ {
		i := f[pc]
		jump := func(taken bool) {
			if taken {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case opLoad:
			a = binary.LittleEndian.Uint32(data[i.K:])
		case opEqual:
			jump(a == i.K)
		case opAtMost:
			jump(a > i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= i.K)
		case opAny:
			jump(a&i.K != 0)
		case opReturn:
			return i.K
		default:
			t.Fatalf("instruction %d has code %#x", pc, i.Code)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

func TestTheFilterAllowsWhatTheTableSaysAndNothingElse(t *testing.T) {
	for _, caps := range [][]int{nil, {unix.CAP_SYS_CHROOT, unix.CAP_SYS_TIME}, {unix.CAP_SYS_ADMIN}} {
		f := filter(caps)
		ok := allowed(caps)
		for nr := uint32(0); nr <= newestSyscall; nr++ {
			got := verdict(t, f, auditArch, nr)
			switch nr {
			case unix.SYS_CLONE, unix.SYS_SOCKET, unix.SYS_IOCTL, unix.SYS_PERSONALITY:
				if got != retAllow {
					t.Errorf("call %d with harmless arguments: %#x", nr, got)
				}
			case unix.SYS_CLONE3:
				if want := map[bool]uint32{false: retErrno | uint32(unix.ENOSYS), true: retAllow}[hasCap(caps, unix.CAP_SYS_ADMIN)]; got != want {
					t.Errorf("clone3: %#x", got)
				}
			default:
				if want := map[bool]uint32{false: retErrno | uint32(unix.EPERM), true: retAllow}[ok[nr]]; got != want {
					t.Errorf("call %d: %#x, want %#x", nr, got, want)
				}
			}
		}
	}
}

func TestTheFilterLooksAtArgumentsAndArchitecture(t *testing.T) {
	f := filter(nil)
	eperm, enosys := retErrno|uint32(unix.EPERM), retErrno|uint32(unix.ENOSYS)
	for _, x := range []struct {
		what string
		want uint32
		got  uint32
	}{
		{"a thread", retAllow, verdict(t, f, auditArch, unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD)},
		{"a user namespace", eperm, verdict(t, f, auditArch, unix.SYS_CLONE, unix.CLONE_NEWUSER)},
		{"a mount namespace", eperm, verdict(t, f, auditArch, unix.SYS_CLONE, unix.CLONE_NEWNS|uint64(unix.SIGCHLD))},
		{"a network socket", retAllow, verdict(t, f, auditArch, unix.SYS_SOCKET, unix.AF_INET)},
		{"a socket to the hypervisor", eperm, verdict(t, f, auditArch, unix.SYS_SOCKET, unix.AF_VSOCK)},
		{"terminal input", eperm, verdict(t, f, auditArch, unix.SYS_IOCTL, 0, unix.TIOCSTI)},
		{"the window's size", retAllow, verdict(t, f, auditArch, unix.SYS_IOCTL, 0, unix.TIOCGWINSZ)},
		{"the usual personality", retAllow, verdict(t, f, auditArch, unix.SYS_PERSONALITY, 0xffffffff)},
		{"an odd personality", eperm, verdict(t, f, auditArch, unix.SYS_PERSONALITY, 0x40000)},
		{"a call from the future", enosys, verdict(t, f, auditArch, newestSyscall+1)},
		{"a call of x32", enosys, verdict(t, f, auditArch, 0x40000000)},
		{"another architecture", enosys, verdict(t, f, auditArch+1, unix.SYS_READ)},
	} {
		if x.got != x.want {
			t.Errorf("%s: %#x, want %#x", x.what, x.got, x.want)
		}
	}
}
