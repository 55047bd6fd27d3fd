// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/plugin"
)

// scriptEmulator is this binary under another name: a fake emulator whose VM runs
// the shell script in -append. The checks of the contract are scripts. The driver
// cannot tell the difference, since it only uses a monitor and watches a process.
const scriptEmulator = "qemu-system-script"

func runScript() {
	if slices.Contains(os.Args, "-version") {
		fmt.Println("QEMU emulator version 7.2.22")
		return
	}
	if os.Getenv(monitorOf) != "" {
		serveMonitor()
		return
	}
	if err := errors.Join(greet(), becomeScript()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// option returns the value of the first option that contains the text.
func option(name, text string) string {
	for i, arg := range os.Args[:len(os.Args)-1] {
		if arg == name && strings.Contains(os.Args[i+1], text) {
			return os.Args[i+1]
		}
	}
	return ""
}

// monitorOf is the variable by which a process of this binary is the monitor of a running VM:
// it has the pid of the script.
const monitorOf = "FAKE_MONITOR_OF"

// serveMonitor stops and continues the processes of the script, as QEMU does those of a
// machine, until the script has ended.
func serveMonitor() {
	pid, err := strconv.Atoi(os.Getenv(monitorOf))
	l, lerr := net.FileListener(os.NewFile(3, "monitor"))
	if err := errors.Join(err, lerr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		for ; os.Getppid() == pid; time.Sleep(10 * time.Millisecond) {
		}
		os.Exit(0)
	}()
	status := "running"
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
		for requests := bufio.NewScanner(conn); requests.Scan(); {
			switch {
			case strings.Contains(requests.Text(), `"qom-get"`):
				fmt.Fprintln(conn, `{"error": {"class": "GenericError", "desc": "a script has no machine"}}`)
				continue
			case strings.Contains(requests.Text(), `"stop"`):
				status = "paused"
				_ = syscall.Kill(-pid, syscall.SIGSTOP)
			case strings.Contains(requests.Text(), `"cont"`):
				status = "running"
				_ = syscall.Kill(-pid, syscall.SIGCONT)
			}
			fmt.Fprintf(conn, "{\"return\": {\"status\": %q}}\n", status)
		}
		_ = conn.Close()
	}
}

// greet is the monitor. It serves the one connection that resumes the VM, and leaves the
// others to a process of its own, since this one becomes the script.
func greet() error {
	_, number, _ := strings.Cut(option("-chardev", "id=monitor"), "fd=")
	fd, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(uintptr(fd), "monitor"))
	if err != nil {
		return err
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
	requests := bufio.NewScanner(conn)
	for _, answer := range []string{"{}", "[]", "{}"} { // answers to qmp_capabilities, query-named-block-nodes, cont
		if !requests.Scan() {
			return errors.Join(io.ErrUnexpectedEOF, requests.Err())
		}
		fmt.Fprintf(conn, "{\"return\": %s}\n", answer)
	}
	file, err := l.(*net.UnixListener).File()
	if err != nil {
		return err
	}
	monitor := exec.Command(os.Args[0])
	monitor.Env, monitor.ExtraFiles = append(os.Environ(), fmt.Sprintf("%s=%d", monitorOf, os.Getpid())), []*os.File{file}
	monitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return monitor.Start()
}

func becomeScript() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", option("-append", "")}, os.Environ())
}

func TestTheContractIsKept(t *testing.T) {
	dir, err := os.MkdirTemp("", "driverqemu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := supervisor.Open(context.Background(), filepath.Join(dir, "driver-exec"))
		if err == nil {
			err = errors.Join(c.Shutdown(context.Background()), c.Close())
		}
		if err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, scriptEmulator)); err != nil {
		t.Fatal(err)
	}
	path := bin + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	drivertest.Run(t, drivertest.Options{
		New: func(t *testing.T) driver.Driver {
			d := driverqemu.New(dir)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			return d
		},
		Binary: exe, Name: "qemu",
		Env: []string{pluginEnv + "=1", plugin.StateDirEnv + "=" + dir, "DROVER_SUPERVISOR_IDLE=1s"},
		Script: func(s string) map[string]any {
			return map[string]any{"image_path": "disk.img", "emulator": scriptEmulator, "args": []any{"-append", s}}
		},
		Task: func(task *driver.TaskConfig) {
			disk := filepath.Join(task.TaskDir, "disk.img")
			if err := errors.Join(os.WriteFile(disk, nil, 0o644), os.Truncate(disk, 1<<20)); err != nil {
				t.Fatal(err)
			}
		},
	})
}
