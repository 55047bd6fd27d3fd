// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// box is a task's directories, and what it has printed.
type box struct {
	cfg     *isolation.Config
	process isolation.Process
	cgroups []string
	out     *os.File
}

func newBox(t *testing.T, change func(*driver.TaskConfig)) *box {
	t.Helper()
	if why := isolation.Unavailable(); why != "" {
		t.Skip(why)
	}
	dir, state := t.TempDir(), t.TempDir()
	task := &driver.TaskConfig{Name: "t", AllocDir: filepath.Join(dir, "alloc-1"), TaskDir: filepath.Join(dir, "alloc-1", "t")}
	for _, sub := range []string{"alloc", "t/local", "t/secrets", "t/tmp"} {
		if err := os.MkdirAll(filepath.Join(task.AllocDir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(task.AllocDir, sub), 0o777); err != nil { // the task's user is not ours
			t.Fatal(err)
		}
	}
	change(task)
	cfg, err := isolation.ForTask(task, state)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Scratch, cfg.Chroot = t.TempDir(), isolation.System()
	if cfg.Bounding, cfg.Ambient, err = isolation.Capabilities(isolation.DefaultCapabilities(), nil, nil); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = out.Close(), null.Close() })
	cfg.Command = "/bin/sh"
	return &box{cfg: cfg, out: out, process: isolation.Process{
		Env: []string{"PATH=/bin:/usr/bin"}, Files: [3]int{int(null.Fd()), int(out.Fd()), int(out.Fd())},
		User: isolation.User{UID: 65534, GID: 65534},
	}}
}

// run runs a script to its end and returns its exit code and what it printed.
func (b *box) run(t *testing.T, script string) (int, string) {
	t.Helper()
	b.process.Args = []string{"sh", "-c", script}
	s, err := isolation.Start(b.cfg, b.cgroups, b.process, isolation.Hold{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := s.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return state.ExitCode(), b.printed(t)
}

func (b *box) printed(t *testing.T) string {
	t.Helper()
	if _, err := b.out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(b.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestATaskSeesItsOwnDirectoriesAndNothingOfTheAgents(t *testing.T) {
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "f"), []byte("mounted\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, func(task *driver.TaskConfig) {
		task.Mounts = []driver.Mount{{HostPath: shared, TaskPath: "/data", ReadOnly: true}}
		task.DNS = &driver.DNSConfig{Servers: []string{"192.0.2.53"}}
	})
	code, out := b.run(t, `id -u; cat /data/f /etc/resolv.conf; ls /proc | grep -c '^[0-9]'; echo mine > /alloc/x && cat /alloc/x
touch /data/g 2>/dev/null && echo "wrote to a read-only mount"
touch /usr/g 2>/dev/null && echo "wrote to the machine"
ls `+filepath.Dir(b.cfg.TaskDir)+` 2>/dev/null && echo "saw the agent's directory"; exit 7`)
	want := "65534\nmounted\nnameserver 192.0.2.53\n"
	if rest, ok := strings.CutPrefix(out, want); code != 7 || !ok || !strings.HasSuffix(rest, "\nmine\n") || strings.Count(rest, "\n") != 2 {
		t.Errorf("code %d, it printed:\n%s", code, out)
	}
}

func TestATaskHasItsNamesOnAMachineThatLacksTheFiles(t *testing.T) {
	for name, links := range map[string]bool{"no files": false, "links that lead nowhere": true} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			if err := os.WriteFile(filepath.Join(etc, "passwd"), []byte("the machine's\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"hosts", "resolv.conf"} {
				if links {
					if err := os.Symlink("../run/none/"+f, filepath.Join(etc, f)); err != nil {
						t.Fatal(err)
					}
				}
			}
			b := newBox(t, func(task *driver.TaskConfig) {
				task.DNS = &driver.DNSConfig{Servers: []string{"192.0.2.53"}}
			})
			b.cfg.Hosts = "192.0.2.7 web\n"
			b.cfg.Chroot = slices.DeleteFunc(b.cfg.Chroot, func(b isolation.Bind) bool { return b.Target == "/etc" })
			b.cfg.Chroot = append(b.cfg.Chroot, isolation.Bind{Source: etc, Target: "/etc"})
			code, out := b.run(t, "cat /etc/hosts /etc/resolv.conf /etc/passwd; touch /etc/x 2>/dev/null && echo wrote to the machine")
			if want := "192.0.2.7 web\nnameserver 192.0.2.53\nthe machine's\n"; code != 1 || out != want {
				t.Errorf("code %d, it printed:\n%s", code, out)
			}
			if left, err := os.ReadDir(etc); err != nil || !links && len(left) != 1 {
				t.Errorf("the machine's /etc has %v, %v", left, err)
			}
		})
	}
}

func TestWhatATaskLeavesBehindEndsWithIt(t *testing.T) {
	b := newBox(t, func(*driver.TaskConfig) {})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.process.Files[1] = int(w.Fd())
	b.process.Args = []string{"sh", "-c", "(trap '' TERM HUP; exec sleep 600) & exit 5"}
	s, err := isolation.Start(b.cfg, nil, b.process, isolation.Hold{})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if state, err := s.Wait(); err != nil || state.ExitCode() != 5 {
		t.Errorf("%v, %v", state, err)
	}
	// The child holds the pipe open as long as it lives.
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("a child of the task lives on: %v", err)
	}
}

func TestACommandJoinsATask(t *testing.T) {
	b := newBox(t, func(*driver.TaskConfig) {})
	b.process.Args = []string{"sh", "-c", "echo secret > /tmp/here; echo ready; exec sleep 600"}
	s, err := isolation.Start(b.cfg, nil, b.process, isolation.Hold{})
	if err != nil {
		t.Fatal(err)
	}
	target, err := isolation.OpenTarget(s.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	p := b.process
	p.Args = []string{"sh", "-c", "until cat /tmp/here 2>/dev/null; do :; done; exit 3"}
	j, err := isolation.Enter(target, b.cfg, nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.FindProcess(j.PID)
	if err != nil {
		t.Fatal(err)
	}
	state, err := child.Wait()
	if err != nil || state.ExitCode() != 3 || !strings.Contains(b.printed(t), "secret") {
		t.Errorf("%v, %v, %q", state, err, b.printed(t))
	}
	s.Kill()
	if state, err := s.Wait(); err != nil || state.Success() {
		t.Errorf("the task after Kill: %v, %v", state, err)
	}
}

func TestWhatATaskCannotHaveIsRefusedByName(t *testing.T) {
	for want, task := range map[string]*driver.TaskConfig{
		"relative":  {Mounts: []driver.Mount{{HostPath: "relative", TaskPath: "/x"}}},
		"sideways":  {Mounts: []driver.Mount{{HostPath: "/x", TaskPath: "/x", PropagationMode: "sideways"}}},
		"rx":        {Devices: []driver.Device{{HostPath: "/dev/null", TaskPath: "/dev/n", Permissions: "rx"}}},
		"elsewhere": {Network: &driver.NetworkIsolation{Address: "elsewhere"}},
	} {
		if _, err := isolation.ForTask(task, ""); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A cgroup that is gone must not be left out silently: the task would run without limits.
func TestATaskDoesNotStartOutsideOfItsCgroup(t *testing.T) {
	b := newBox(t, func(*driver.TaskConfig) {})
	b.process.Args = []string{"sh", "-c", "echo ran"}
	gone := filepath.Join("/sys/fs/cgroup", "no-such-cgroup")
	if s, err := isolation.Start(b.cfg, []string{gone}, b.process, isolation.Hold{}); err == nil || !strings.Contains(err.Error(), gone) || s.PID != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if out := b.printed(t); out != "" {
		t.Errorf("it ran: %q", out)
	}
}

// newCgroup makes a cgroup of the machine's version.
func newCgroup(t *testing.T) string {
	t.Helper()
	parent := "/sys/fs/cgroup"
	if _, err := os.Stat(parent + "/cgroup.controllers"); err != nil {
		parent += "/memory"
	}
	dir, err := os.MkdirTemp(parent, "isolation-test-")
	if err != nil {
		t.Skipf("no cgroups here: %v", err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(time.Minute); ; {
			err := os.Remove(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("processes are left in the cgroup: %v", err)
				return
			}
		}
	})
	return dir
}

func TestATaskIsInItsCgroupBeforeItRunsAndSoIsACommandInIt(t *testing.T) {
	b := newBox(t, func(*driver.TaskConfig) {})
	dir := newCgroup(t)
	has := func(pid int) bool {
		raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		return err == nil && strings.Contains("\n"+string(raw), "\n"+strconv.Itoa(pid)+"\n")
	}
	if err := isolation.LimitDevices([]string{dir}, nil); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report")
	b.process.Args = []string{"sh", "-c", "echo began; exec sleep 600"}
	s, err := isolation.Start(b.cfg, []string{dir}, b.process, isolation.Hold{Report: report, Write: func(s isolation.Started) error {
		if !has(s.PID) || !has(s.Init) || b.printed(t) != "" {
			t.Errorf("the held processes %d and %d in the cgroup: %t, %t; printed %q", s.PID, s.Init, has(s.PID), has(s.Init), b.printed(t))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if began, err := isolation.Began(report, time.Minute); err != nil || !began {
		t.Errorf("its report: %t, %v", began, err)
	}
	target, err := isolation.OpenTarget(s.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	p := b.process
	p.Args = []string{"sh", "-c", "exec sleep 600"}
	j, err := isolation.Enter(target, b.cfg, []string{dir}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !has(j.PID) {
		t.Errorf("the command %d is not in the task's cgroup", j.PID)
	}
	s.Kill()
	child, err := os.FindProcess(j.PID)
	if err == nil {
		_, err = child.Wait() // process 1 is gone, and all that is in its namespace
	}
	if _, ended := s.Wait(); err != nil || ended != nil {
		t.Errorf("after Kill: %v, %v", err, ended)
	}
}
