// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// held is a shell that creates the file "ran" first.
type held struct {
	Plain
	Process
	report, ran string
}

func hold(t *testing.T) *held {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	dir, fd := t.TempDir(), int(null.Fd())
	return &held{
		Plain{Path: "/bin/sh", Dir: dir}, Process{Args: []string{"sh", "-c", ": > ran; exit 7"}, Files: [3]int{fd, fd, fd}},
		filepath.Join(dir, "report"), filepath.Join(dir, "ran"),
	}
}

func (h *held) fork(write func(Started) error) (Started, error) {
	return Fork(h.Plain, -1, h.Process, Hold{Report: h.report, Write: write})
}

// is checks whether it ran, and that its report agrees.
func (h *held) is(t *testing.T, want bool) {
	t.Helper()
	_, err := os.Stat(h.ran)
	began, reported := Began(h.report, 10*time.Second)
	if ran := err == nil; ran != want || began != want || reported != nil {
		t.Errorf("it ran: %v, its report: %v, %v; want %v", ran, began, reported, want)
	}
}

func (h *held) end(t *testing.T, s Started) int {
	t.Helper()
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(s.PID, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	closeFD(s.PIDFD)
	return ws.ExitStatus()
}

func TestAHeldProcessRunsWhenItIsWrittenDownAndNotBefore(t *testing.T) {
	h := hold(t)
	s, err := h.fork(func(s Started) error {
		if _, err := os.Stat(h.ran); s.PID == 0 || !os.IsNotExist(err) {
			t.Errorf("when process %d is written down: %v", s.PID, err)
		}
		if _, err := Began(h.report, time.Millisecond); !errors.Is(err, ErrUndecided) {
			t.Errorf("its report while it is held: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if code := h.end(t, s); code != 7 {
		t.Errorf("exit %d", code)
	}
	h.is(t, true)
}

func TestAHeldProcessThatIsNotWrittenDownRunsNothing(t *testing.T) {
	h, full := hold(t), errors.New("the disk is full")
	if _, err := h.fork(func(Started) error { return full }); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	h.is(t, false)
}

func TestAHeldProcessEndsAtItsGateWithWhoeverHoldsIt(t *testing.T) {
	h := hold(t)
	g, err := makeGate(h.report, func(Started) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	prog := h.program(h.Process)
	file, err := prog.file("test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(file)
	pid, pidfd, err := spawn(file, []string{"test"}, -1, append(h.Files[:], g.file, g.wait, g.file), &syscall.SysProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	g.close() // as the kernel does
	if code := h.end(t, Started{PID: pid, PIDFD: pidfd}); code != 127 {
		t.Errorf("exit %d", code)
	}
	h.is(t, false)
}

func TestACommandThatCannotBeRunHasNotBegunAndSaysWhy(t *testing.T) {
	for want, edit := range map[string]func(*held){
		"no such file":                func(h *held) { h.Path = "/no/such/program" },
		"enter the working directory": func(h *held) { h.Dir = "/no/such/directory" },
		"zero byte":                   func(h *held) { h.Env = []string{"A=b\x00c"} },
	} {
		h := hold(t)
		edit(h)
		if _, err := h.fork(func(Started) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		h.is(t, false)
	}
}

func TestAReportThatIsNotThereSaysNothing(t *testing.T) {
	if _, err := Began(filepath.Join(t.TempDir(), "report"), time.Second); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("error %v", err)
	}
}
