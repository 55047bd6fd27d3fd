// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	if os.Getenv(writerEnv) != "" {
		paced()
		return
	}
	if dirs := os.Getenv(elsewhereEnv); dirs != "" {
		if err := elsewhere(dirs); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv("DROVER_SUPERVISOR_IDLE", "2s"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

type rig struct {
	*supervisor.Client
	t    *testing.T
	ctx  context.Context
	dir  string // the supervisor's
	root string // the alloc's
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	r := &rig{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "supervisor"), root: t.TempDir()}
	r.must(os.MkdirAll(filepath.Join(r.root, "alloc/logs"), 0o777))
	r.reopen()
	t.Cleanup(func() {
		list, err := r.List(ctx)
		r.must(err)
		for _, s := range list {
			r.must(r.Destroy(ctx, s.ID, true))
		}
		r.must(r.Shutdown(ctx))
		r.must(r.Close())
		cancel()
	})
	return r
}

func (r *rig) reopen() {
	r.t.Helper()
	c, err := supervisor.Open(r.ctx, r.dir)
	r.must(err)
	r.Client = c
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) sh(id, script string) supervisor.Spec {
	return supervisor.Spec{
		ID: id, Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: r.root,
		Logs: supervisor.Logs{Root: r.root, Dir: "alloc/logs", Stdout: id + ".stdout", Stderr: id + ".stderr", MaxFiles: 3, MaxFileBytes: 1 << 20},
	}
}

func (r *rig) start(id, script string) supervisor.Status {
	r.t.Helper()
	s, err := r.Start(r.ctx, r.sh(id, script))
	r.must(err)
	return s
}

func (r *rig) wait(id string) *supervisor.Exit {
	r.t.Helper()
	s, err := r.Wait(r.ctx, id)
	r.must(err)
	if s.Exit == nil {
		r.t.Fatalf("wait for %s returned without an exit", id)
	}
	return s.Exit
}

func (r *rig) log(name string) string {
	raw, err := os.ReadFile(filepath.Join(r.root, "alloc/logs", name))
	if err != nil {
		return ""
	}
	return string(raw)
}

// eventually waits for a condition of real processes.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			r.t.Fatalf("not in time: %s; supervisor.log:\n%s", what, r.supervisorLog())
		}
	}
}

func (r *rig) supervisorLog() string {
	raw, err := os.ReadFile(filepath.Join(r.dir, "supervisor.log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (r *rig) hello() supervisor.Hello {
	r.t.Helper()
	h, err := r.Hello(r.ctx)
	r.must(err)
	return h
}

// killSupervisor kills the loop and returns when another one answers.
func (r *rig) killSupervisor() {
	r.t.Helper()
	old := r.hello()
	r.must(syscall.Kill(old.PID, syscall.SIGKILL))
	r.eventually("another supervisor answers", func() bool { return r.hello().PID != old.PID })
}

func alive(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

func TestATaskRunsAndTellsItsExitCode(t *testing.T) {
	r := newRig(t)
	r.start("a", "echo out; echo err >&2; exit 7")
	if e := r.wait("a"); e.Code != 7 || e.Signal != 0 || e.Unknown != "" {
		t.Fatalf("exit %+v", e)
	}
	if out, err := r.log("a.stdout.0"), r.log("a.stderr.0"); out != "out\n" || err != "err\n" {
		t.Fatalf("logs %q %q", out, err)
	}
	_, err := r.Start(r.ctx, r.sh("a", "true"))
	if !errdefs.IsAlreadyExists(err) {
		t.Fatalf("a second start of a known task: %v", err)
	}
	r.must(r.Destroy(r.ctx, "a", false))
	if _, err := r.Wait(r.ctx, "a"); !errdefs.IsNotFound(err) {
		t.Fatalf("wait for a destroyed task: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "tasks"))
	r.must(err)
	if len(entries) != 0 {
		t.Fatalf("a destroyed task leaves %v in the journal", entries)
	}
}

func TestAProgramThatDoesNotExistIsAClearErrorAndLeavesNothing(t *testing.T) {
	r := newRig(t)
	spec := r.sh("a", "")
	spec.Path = "/no/such/program"
	_, err := r.Start(r.ctx, spec)
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "/no/such/program") {
		t.Fatalf("error %v", err)
	}
	for _, sub := range []string{"tasks", "fifo", "pids"} {
		entries, err := os.ReadDir(filepath.Join(r.dir, sub))
		r.must(err)
		if len(entries) != 0 {
			t.Fatalf("%s holds %v", sub, entries)
		}
	}
	r.start("a", "true")
	r.wait("a")
}

func TestStopSignalsAndThenKillsEveryProcessOfTheTask(t *testing.T) {
	r := newRig(t)
	r.start("polite", `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
	r.eventually("it has its trap", func() bool { return r.log("polite.stdout.0") != "" })
	s, err := r.Stop(r.ctx, "polite", int(syscall.SIGTERM), 30*time.Second)
	r.must(err)
	if s.Exit.Code != 3 {
		t.Fatalf("exit %+v", s.Exit)
	}
	r.start("stubborn", `trap '' TERM; sleep 1000 & setsid sleep 1000 & echo $! ; while :; do sleep 0.01; done`)
	r.eventually("the children run", func() bool { return r.log("stubborn.stdout.0") != "" })
	s, err = r.Stop(r.ctx, "stubborn", int(syscall.SIGTERM), 50*time.Millisecond)
	r.must(err)
	if s.Exit.Signal != int(syscall.SIGKILL) {
		t.Fatalf("exit %+v", s.Exit)
	}
	if s.Cgroup == "" {
		return // only with a cgroup does nobody escape
	}
	pid, err := strconv.Atoi(strings.TrimSpace(r.log("stubborn.stdout.0")))
	r.must(err)
	r.eventually("the child in another session is killed too", func() bool { return !alive(pid) })
}

func TestTheEndsOfTasksAreKeptForAClientThatComesLater(t *testing.T) {
	r := newRig(t)
	r.start("a", "exit 5")
	r.must(r.Close())
	r.reopen()
	if e := r.wait("a"); e.Code != 5 {
		t.Fatalf("exit %+v", e)
	}
}

func TestTasksOutliveTheSupervisorAndKeepTheirExitCodes(t *testing.T) {
	r := newRig(t)
	s := r.start("a", `while [ ! -e go ]; do echo tick; sleep 0.005; done; exit 9`)
	r.eventually("it writes", func() bool { return r.log("a.stdout.0") != "" })
	r.killSupervisor()
	now, err := r.Inspect(r.ctx, "a")
	r.must(err)
	if now.PID != s.PID || now.Exit != nil || !alive(s.PID) {
		t.Fatalf("after the supervisor was killed: %+v", now)
	}
	size := len(r.log("a.stdout.0"))
	r.eventually("its output goes on", func() bool { return len(r.log("a.stdout.0")) > size })
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	if e := r.wait("a"); e.Code != 9 || e.Unknown != "" {
		t.Fatalf("exit %+v; %s", e, r.supervisorLog())
	}
}

// endsUnseen lets the task a end unseen, and checks that the next supervisor knows its
// exit code and output.
func (r *rig) endsUnseen(h supervisor.Hello, s supervisor.Status, output string) {
	r.t.Helper()
	r.endUnseen(h, s)
	r.knowsTheEnd(output)
}

// endUnseen lets the task a end with code 11 while its supervisor is stopped, and kills
// the supervisor.
func (r *rig) endUnseen(h supervisor.Hello, s supervisor.Status) {
	r.t.Helper()
	r.freeze(h.PID)
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	r.eventually("the task ends", func() bool { return !alive(s.PID) })
	r.must(syscall.Kill(h.PID, syscall.SIGKILL))
	r.eventually("the supervisor has ended", func() bool { return !alive(h.PID) })
}

func (r *rig) knowsTheEnd(output string) {
	r.t.Helper()
	if e := r.wait("a"); e.Code != 11 || e.Unknown != "" {
		r.t.Fatalf("exit %+v; %s", e, r.supervisorLog())
	}
	if out := r.log("a.stdout.0"); out != output {
		r.t.Fatalf("log %q", out)
	}
}

func TestATaskThatEndsWhileThereIsNoSupervisorKeepsExitCodeAndLastWords(t *testing.T) {
	r := newRig(t)
	h := r.hello()
	s := r.start("a", `while [ ! -e go ]; do sleep 0.005; done; echo last words; exit 11`)
	r.endsUnseen(h, s, "last words\n")
}

func TestLastWordsAreKeptBeforeTheKeeperHasHeardOfTheTask(t *testing.T) {
	r := newRig(t)
	h := r.hello()
	r.freeze(h.Keeper)
	s := r.start("a", `while [ ! -e go ]; do sleep 0.005; done; echo last words; exit 11`)
	r.endUnseen(h, s)
	r.must(syscall.Kill(h.Keeper, syscall.SIGCONT))
	r.knowsTheEnd("last words\n")
}

func TestASupervisorWhoseKeeperIsKilledBecomesTheKeeperAndNothingIsLost(t *testing.T) {
	r := newRig(t)
	s := r.start("a", `echo first words; while [ ! -e go ]; do sleep 0.005; done; echo last words; exit 11`)
	h := r.hello()
	for range 3 {
		r.must(syscall.Kill(h.Keeper, syscall.SIGKILL))
		was := h
		r.eventually("the supervisor is the keeper", func() bool { h = r.hello(); return h.Keeper == was.PID && h.PID != was.PID })
		if now, err := r.Inspect(r.ctx, "a"); err != nil || now.PID != s.PID || now.Exit != nil {
			t.Fatalf("the task is %+v, %v; %s", now, err, r.supervisorLog())
		}
	}
	// The new keeper knows the end of a task that nobody supervises.
	r.endsUnseen(h, s, "first words\nlast words\n")
}

func TestWithKeeperAndSupervisorKilledTheTaskGoesOn(t *testing.T) {
	r := newRig(t)
	s := r.start("a", `while [ ! -e go ]; do sleep 0.005; done; echo still; exit 13`)
	h := r.hello()
	r.must(syscall.Kill(h.Keeper, syscall.SIGKILL))
	r.must(syscall.Kill(h.PID, syscall.SIGKILL))
	r.eventually("both are dead", func() bool { return !alive(h.PID) && !alive(h.Keeper) })
	if now := r.hello(); now.PID == h.PID || now.Keeper == h.Keeper {
		t.Fatalf("still %+v", now)
	}
	if !alive(s.PID) {
		t.Fatal("the task died with the supervisor")
	}
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	// The exit code is known only on kernels that report it through the pidfd.
	if e := r.wait("a"); e.Unknown == "" && e.Code != 13 {
		t.Fatalf("exit %+v", e)
	} else {
		t.Logf("exit %+v", e)
	}
	if out := r.log("a.stdout.0"); out != "still\n" {
		t.Fatalf("log %q", out)
	}
}

func TestAnUpgradeInPlaceKeepsPidsOutputAndExitCodes(t *testing.T) {
	r := newRig(t)
	exe, err := os.Executable()
	r.must(err)
	raw, err := os.ReadFile(exe)
	r.must(err)
	next := filepath.Join(t.TempDir(), "next")
	r.must(os.WriteFile(next, raw, 0o700))
	before := r.hello()
	s := r.start("a", `i=0; while [ ! -e go ]; do i=$((i+1)); echo $i; done; exit 17`)
	r.must(r.Upgrade(r.ctx, next))
	after := r.hello()
	if after.PID != before.PID || after.Binary == before.Binary {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	e := r.wait("a")
	if now, err := r.Inspect(r.ctx, "a"); err != nil || now.PID != s.PID || e.Code != 17 {
		t.Fatalf("exit %+v, %+v, %v", e, now, err)
	}
	r.consecutive("a")

	broken := filepath.Join(t.TempDir(), "broken")
	r.must(os.WriteFile(broken, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	if err := r.Upgrade(r.ctx, broken); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("upgrade to a binary that is none of ours: %v", err)
	}
	if now := r.hello(); now != after {
		t.Fatalf("after a refused upgrade %+v", now)
	}
}

// consecutive checks that the numbered lines in the kept files have no gap and
// no repetition, and returns the last number.
func (r *rig) consecutive(id string) int {
	r.t.Helper()
	var all strings.Builder
	for i := range 1000 {
		all.WriteString(r.log(fmt.Sprintf("%s.stdout.%d", id, i)))
	}
	text := all.String()
	if !strings.HasPrefix(text, "1\n") { // rotated away: begin after the first, cut line
		_, text, _ = strings.Cut(text, "\n")
	}
	last := 0
	for line := range strings.Lines(text) {
		n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		r.must(err)
		if last != 0 && n != last+1 {
			r.t.Fatalf("line %d follows %d", n, last)
		}
		last = n
	}
	return last
}

func TestNoByteIsLostOrDoubledWhenTheSupervisorIsKilledUnderLoad(t *testing.T) {
	r := newRig(t)
	spec := r.sh("a", `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo $i; done`)
	spec.Logs.MaxFiles = 1000
	spec.Logs.MaxFileBytes = 64 << 10
	_, err := r.Start(r.ctx, spec)
	r.must(err)
	for range 5 {
		size := len(r.log("a.stdout.0"))
		r.eventually("it writes", func() bool { return size > 0 || len(r.log("a.stdout.0")) > 0 })
		r.killSupervisor()
	}
	if e := r.wait("a"); e.Code != 0 {
		t.Fatalf("exit %+v", e)
	}
	if last := r.consecutive("a"); last != 200000 {
		t.Fatalf("the last line is %d", last)
	}
}

func TestLogsRotateBySizeAndKeepTheLastFiles(t *testing.T) {
	r := newRig(t)
	spec := r.sh("a", `i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; done`)
	spec.Logs.MaxFileBytes, spec.Logs.MaxFiles = 1000, 3
	_, err := r.Start(r.ctx, spec)
	r.must(err)
	r.wait("a")
	files, err := filepath.Glob(filepath.Join(r.root, "alloc/logs/a.stdout.*"))
	r.must(err)
	if len(files) != 3 {
		t.Fatalf("files %v", files)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		r.must(err)
		if st.Size() > 1000 {
			t.Fatalf("%s has %d bytes", f, st.Size())
		}
	}
	if last := r.consecutive("a"); last != 2000 {
		t.Fatalf("the last line is %d", last)
	}
}

func TestALogFileThatIsALinkIsNotFollowed(t *testing.T) {
	r := newRig(t)
	victim := filepath.Join(t.TempDir(), "victim")
	r.must(os.WriteFile(victim, []byte("precious"), 0o600))
	r.must(os.Symlink(victim, filepath.Join(r.root, "alloc/logs/a.stdout.0")))
	r.must(os.Link(victim, filepath.Join(r.root, "alloc/logs/a.stderr.0")))
	r.start("a", "echo evil; echo evil >&2")
	r.wait("a")
	raw, err := os.ReadFile(victim)
	r.must(err)
	if string(raw) != "precious" {
		t.Fatalf("the victim holds %q", raw)
	}
	if out := r.log("a.stdout.0"); out != "evil\n" {
		t.Fatalf("log %q", out)
	}
	r.must(os.Rename(filepath.Join(r.root, "alloc/logs"), filepath.Join(r.root, "alloc/old")))
	r.must(os.Symlink(filepath.Dir(victim), filepath.Join(r.root, "alloc/logs")))
	if _, err := r.Start(r.ctx, r.sh("b", "echo evil")); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("start with a linked log directory: %v", err)
	}
}

func TestOutputThatCannotBeWrittenIsDroppedAndTheTaskNeverWaits(t *testing.T) {
	r := newRig(t)
	r.must(os.RemoveAll(filepath.Join(r.root, "alloc/logs")))
	r.must(os.MkdirAll(filepath.Join(r.root, "alloc/logs"), 0o777))
	if err := syscall.Mount("tmpfs", filepath.Join(r.root, "alloc/logs"), "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a full disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { r.must(syscall.Unmount(filepath.Join(r.root, "alloc/logs"), syscall.MNT_DETACH)) })
	r.start("a", "head -c 1000000 /dev/zero; exit 4")
	if e := r.wait("a"); e.Code != 4 {
		t.Fatalf("exit %+v", e)
	}
	s, err := r.Inspect(r.ctx, "a")
	r.must(err)
	if s.DroppedLogBytes < 900000 {
		t.Fatalf("dropped %d bytes", s.DroppedLogBytes)
	}
}

func TestATaskDoesNotInheritIgnoredSignalsOrDescriptors(t *testing.T) {
	r := newRig(t)
	r.start("a", `grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd`)
	r.wait("a")
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0\n1\n2\n3\n"
	if out := r.log("a.stdout.0"); out != want {
		t.Fatalf("log %q", out)
	}
}

func TestASocketThatSomebodyRemovesComesBack(t *testing.T) {
	r := newRig(t)
	r.start("a", "sleep 1000")
	pid := r.hello().PID
	r.must(r.Close())
	r.must(os.Remove(filepath.Join(r.dir, "socket")))
	r.reopen()
	if now := r.hello().PID; now != pid {
		t.Fatalf("supervisor %d instead of %d", now, pid)
	}
	if s, err := r.Inspect(r.ctx, "a"); err != nil || s.Exit != nil {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestMeasureCountsAllProcessesOfATask(t *testing.T) {
	r := newRig(t)
	r.start("a", `sleep 100 & while :; do :; done`)
	r.eventually("it has used the cpu", func() bool {
		list, err := r.List(r.ctx)
		r.must(err)
		u := supervisor.Measure(list)["a"]
		return u.User > 50*time.Millisecond && u.RSS > 0 && len(u.PIDs) == 2
	})
}

// busy runs while its file is there.
func (r *rig) busy(file string) string {
	return fmt.Sprintf(`while :; do while [ -e %[1]s ]; do :; done; sleep 0.02; done`, file)
}

func TestASamplerThatHasSeenATaskSleepNoticesThatItRunsAgainAndWhatItStarts(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "run")
	r.start("a", r.busy(file))
	r.start("b", "sleep 1000")
	s := supervisor.NewSampler()
	measure := func() map[string]supervisor.Usage {
		list, err := r.List(r.ctx)
		r.must(err)
		return s.Measure(list)
	}
	// Memory of a process that has just been executed is not in its counters yet.
	r.eventually("the task sleeps", func() bool { return measure()["b"].RSS > 0 })
	for range 3 {
		if u := measure(); len(u["b"].PIDs) == 0 || u["b"].RSS == 0 {
			t.Fatalf("a task that sleeps uses %+v", u["b"])
		}
	}
	before := measure()["a"].User
	r.must(os.WriteFile(file, nil, 0o600))
	r.eventually("what it uses is noticed", func() bool { return measure()["a"].User > before+30*time.Millisecond })
	r.must(os.Remove(file))
	fresh := supervisor.NewSampler()
	list, err := r.List(r.ctx)
	r.must(err)
	if was, now := measure()["b"], fresh.Measure(list)["b"]; was.User != now.User || was.RSS != now.RSS || !slices.Equal(was.PIDs, now.PIDs) {
		t.Errorf("a sampler that knows the task says %+v, a new one %+v", was, now)
	}
	r.must(r.Destroy(r.ctx, "b", true))
	if u, ok := measure()["b"]; ok {
		t.Errorf("a task that has ended uses %+v", u)
	}
}

func TestAHundredTasksCostTheSupervisorLittle(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		id := fmt.Sprintf("t%d", i)
		spec := r.sh(id, "")
		spec.Path, spec.Args = "/bin/sleep", []string{"sleep", "1000"}
		_, err := r.Start(r.ctx, spec)
		r.must(err)
	}
	h := r.hello()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", h.PID))
	r.must(err)
	if len(threads) > 20 {
		t.Fatalf("%d threads for 100 tasks", len(threads))
	}
	for i := range 100 {
		r.must(r.Destroy(r.ctx, fmt.Sprintf("t%d", i), true))
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.PID))
	r.must(err)
	if len(fds) > 20 {
		t.Fatalf("%d descriptors are open after all tasks are gone", len(fds))
	}
}
