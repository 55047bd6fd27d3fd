// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && (amd64 || arm64)

package isolation_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/isolation"
)

// withoutClone3 refuses clone3 as an unknown call.
func withoutClone3() []unix.SockFilter {
	refuse := func(nr, errno uint32) []unix.SockFilter {
		return []unix.SockFilter{
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		}
	}
	out := append([]unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}, refuse(unix.SYS_CLONE3, uint32(unix.ENOSYS))...)
	return append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// started starts a command with the filter on a thread that may set one and ends.
func started(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = isolation.StartFiltered(cmd, withoutClone3())
		}
		done <- err
	}()
	return <-done
}

func TestACommandIsBornInItsCgroupThoughItsFilterRefusesThat(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", `echo $0 $1 $FOUND; grep ^Seccomp: /proc/self/status; exit 7`, "zero", "one")
	cmd.Stdout, cmd.Env, cmd.SysProcAttr = &out, []string{"PATH=/bin:/usr/bin", "FOUND=yes"}, &syscall.SysProcAttr{Setsid: true}
	path := cmd.Path
	if err := started(cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.HasPrefix(out.String(), "zero one yes\nSeccomp:\t2\n") || cmd.Path != path {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestAFilteredCommandThatCannotRunFailsAsAnyOther(t *testing.T) {
	if err := started(exec.Command("/no/such/program")); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "fork/exec /no/such/program") {
		t.Errorf("%v", err)
	}
}
