// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestCommandsThatCannotRunAreClearErrorsAndLeaveNothing(t *testing.T) {
	c := newCell(t, nil)
	for name, x := range map[string]struct{ body, says string }{
		"noexec":  {"#!/bin/sh\n", "/local/noexec: it is not executable"},
		"script":  {"#!/no/such/interpreter -e\n", `its interpreter "/no/such/interpreter" is not there`},
		"windows": {"#!/bin/sh\r\n", "carriage return"},
		"bare":    {"echo hello\n", "#!/bin/sh"},
		"empty":   {"", "the file is empty"},
		"garbage": {"\x7fELFgarbage", "another kind of machine"},
	} {
		body := x.body
		task := c.task(name, map[string]any{"command": name})
		mode := os.FileMode(0o755)
		if name == "noexec" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(task.TaskDir, "local", name), []byte(body), mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := c.StartTask(c.ctx, task)
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: class %s, %v", name, errdefs.ClassOf(err), err)
		}
		if _, err := c.InspectTask(c.ctx, task.ID); !errdefs.IsNotFound(err) {
			t.Errorf("%s: something is left: %v", name, err)
		}
	}
	for _, command := range []string{"/no/such/program", "nosuchprogram", "/etc", ""} {
		_, _, err := c.StartTask(c.ctx, c.task("missing", map[string]any{"command": command}))
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("command %q: class %s, %v", command, errdefs.ClassOf(err), err)
		}
	}
	task := c.task("signal", map[string]any{"command": "/bin/true"})
	task.KillSignal = "SIGFOO"
	if _, _, err := c.StartTask(c.ctx, task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "kill_signal") {
		t.Errorf("a kill_signal that is none: %v", err)
	}
	many := map[string]string{} // each of them would be accepted
	for i := range 40 {
		many[fmt.Sprint("V", i)] = strings.Repeat("x", 100<<10)
	}
	for says, env := range map[string]map[string]string{
		"the variable LARGE of 204806 bytes": {"LARGE": strings.Repeat("x", 200<<10)}, "arguments and environment are 40": many,
	} {
		task := c.task("large", map[string]any{"command": "/bin/true"})
		task.Env = env
		if _, _, err := c.StartTask(c.ctx, task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("a large environment: class %s, %.300v", errdefs.ClassOf(err), err)
		}
	}
	groups, err := filepath.Glob(filepath.Join(c.dir, "state", "tasks", "*"))
	if err != nil || len(groups) != 0 {
		t.Errorf("the journal holds %v, %v", groups, err)
	}
}

func TestATaskWhoseStartNobodyLearnedOfIsDestroyedByTheNextProcess(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh("exec sleep 1000"))
	if _, _, err := c.StartTask(c.ctx, task); err != nil {
		t.Fatal(err)
	}
	next := driverexec.NewExec(filepath.Join(c.dir, "state"))
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := next.DestroyTask(c.ctx, task.Ref(), false); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("destroyed without force while it runs: %v", err)
	}
	if err := next.DestroyTask(c.ctx, task.Ref(), true); err != nil {
		t.Fatal(err)
	}
	if s, err := c.InspectTask(c.ctx, task.ID); !errdefs.IsNotFound(err) {
		t.Errorf("it is still there: %+v, %v", s, err)
	}
	if err := next.DestroyTask(c.ctx, task.Ref(), true); err != nil {
		t.Errorf("destroyed again: %v", err)
	}
	if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
		t.Error(err)
	}
}

func TestOrphansOfATaskAreReapedAndDieWithIt(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`for i in 1 2 3 4 5; do (sleep 0.01 &); done; (setsid sleep 1000 &); echo up; exec sleep 1000`))
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up") })
	c.eventually("no zombie is left of five orphans", func() bool {
		out, _, err := c.exec(task, "/bin/sh", "-c", "cat /proc/[0-9]*/stat")
		return err == nil && !strings.Contains(out, ") Z ") && strings.Count(out, "(sleep)") == 2
	})
	if err := c.StopTask(c.ctx, task.ID, 10*time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.WaitTask(c.ctx, task.ID); err != nil || r.Signal != int(syscall.SIGTERM) {
		t.Fatalf("a plain sleep that was sent SIGTERM ended with %+v, %v", r, err)
	}
}

// ownGroup is the line of a command's own cgroup of version 2 in /proc/self/cgroup.
var ownGroup = regexp.MustCompile(`0::/command\.[0-9]+\n`)

func TestACommandThatIsRunInATaskIsInsideIt(t *testing.T) {
	c := newCell(t, nil)
	const look = "for n in /proc/self/ns/*; do readlink $n; done; cat /proc/self/cgroup; id -u; pwd; ls /; echo $COLOUR; grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status"
	task := c.task("a", sh(look+"; echo up; exec sleep 1000"))
	task.Env["COLOUR"] = "blue"
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up\n") })
	out, r, err := c.exec(task, "/bin/sh", "-c", look)
	out = ownGroup.ReplaceAllString(out, "0::/\n") // a group of its own, below that of the task
	if want := strings.TrimSuffix(c.output(task), "up\n"); err != nil || !r.Successful() || out != want {
		t.Fatalf("%+v, %v:\n%s\nwant\n%s", r, err, out, want)
	}
	out, r, err = c.exec(task, "cat", "/proc/1/comm")
	if err != nil || out != "drover-init\n" {
		t.Fatalf("%q, %+v, %v", out, r, err)
	}
}

func TestStatsOfAnIsolatedTaskComeFromItsCgroup(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`x=$(head -c 8000000 /dev/zero | tr '\0' a); echo up; while :; do :; done`))
	c.start(task)
	samples, err := c.TaskStats(c.ctx, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for batch := range samples {
		for _, s := range batch {
			if s.CPU.Percent > 1 && s.Memory.RSS > 8_000_000 && s.Memory.Usage >= s.Memory.RSS && s.Memory.MaxUsage > 0 && s.Processes >= 2 {
				return
			}
		}
	}
	t.Fatal("no sample shows what the task uses")
}

// supervised returns a client of the cell's supervisor, and the supervisor's Hello.
func (c *cell) supervised() (*supervisor.Client, supervisor.Hello) {
	c.t.Helper()
	client, err := supervisor.Open(c.ctx, filepath.Join(c.dir, "state"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := client.Close(); err != nil {
			c.t.Error(err)
		}
	})
	hello, err := client.Hello(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return client, hello
}

func TestIsolatedTasksOutliveTheSupervisorAndKeepTheirExitCodes(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`echo up; while [ ! -e /local/go ]; do sleep 0.01; done; exit 9`))
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up\n") })
	client, old := c.supervised()
	if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually("another supervisor answers", func() bool {
		now, err := client.Hello(c.ctx)
		return err == nil && now.PID != old.PID
	})
	if s, err := c.InspectTask(c.ctx, task.ID); err != nil || s.State != driver.TaskRunning {
		t.Fatalf("%+v, %v", s, err)
	}
	if out, r, err := c.exec(task, "echo", "inside"); err != nil || !r.Successful() || out != "inside\n" {
		t.Fatalf("exec after it: %q, %+v, %v", out, r, err)
	}
	if err := os.WriteFile(filepath.Join(task.TaskDir, "local/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := c.WaitTask(c.ctx, task.ID); err != nil || r.ExitCode != 9 || r.Err != "" {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestIsolatedTasksOutliveSupervisorAndKeeperAndAreStoppedAsAWhole(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`setsid sleep 1000 & echo up; exec sleep 1000`))
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up\n") })
	_, old := c.supervised()
	for _, pid := range []int{old.Keeper, old.PID} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.InspectTask(c.ctx, task.ID)
	if err != nil || s.State != driver.TaskRunning {
		t.Fatalf("%+v, %v", s, err)
	}
	main := s.Attributes["pid"]
	ns, err := os.Readlink("/proc/" + main + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StopTask(c.ctx, task.ID, 10*time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "stat")) // if it is gone that is fine
		if got, err := os.Readlink(link); err == nil && got == ns && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("%s is left of the stopped task", link)
		}
	}
}

func TestIsolatedTasksOutliveAnUpgradeOfTheSupervisor(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done`))
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up\n") })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(c.dir, "next")
	if err := os.WriteFile(next, raw, 0o700); err != nil {
		t.Fatal(err)
	}
	client, before := c.supervised()
	if err := client.Upgrade(c.ctx, next); err != nil {
		t.Fatal(err)
	}
	if now, err := client.Hello(c.ctx); err != nil || now.PID != before.PID || now.Binary == before.Binary {
		t.Fatalf("before %+v, after %+v, %v", before, now, err)
	}
	if err := c.StopTask(c.ctx, task.ID, 10*time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.WaitTask(c.ctx, task.ID); err != nil || r.ExitCode != 5 || r.Err != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, pid := range processesCalled(t, "drover-init") {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), fmt.Sprintf(") Z %d ", before.PID)) {
			t.Errorf("process %d is a zombie of the supervisor", pid)
		}
	}
}

func TestManyTasksThatAreStartedAtOnceAllRunAndLeaveNothing(t *testing.T) {
	c := newCell(t, nil)
	const n = 30
	errs := make(chan error, n)
	var tasks []*driver.TaskConfig
	for i := range n {
		tasks = append(tasks, c.sleeper(fmt.Sprintf("t%d", i)))
	}
	for _, task := range tasks {
		go func() {
			_, _, err := c.StartTask(c.ctx, task)
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	client, hello := c.supervised()
	for _, task := range tasks {
		if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
			t.Error(err)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", hello.PID))
	if err != nil || len(fds) > 25 {
		t.Errorf("%d descriptors are open after all tasks are gone, %v", len(fds), err)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", hello.PID))
	if err != nil || len(threads) > 20 {
		t.Errorf("%d threads, %v", len(threads), err)
	}
	list, err := client.List(c.ctx)
	if err != nil || len(list) != 0 {
		t.Errorf("tasks %v, %v", list, err)
	}
}
