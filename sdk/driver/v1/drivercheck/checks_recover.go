// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var recoverChecks = []Check{
	{"fresh-process", "a process starts with no tasks: one that another started is unknown until it is recovered", nil, checkFreshProcess},
	{"recover-running", "a running task is recovered after the plugin was killed, any number of times", nil, checkRecoverRunning},
	{"recover-ended", "a task that ended while no plugin ran is recovered with its exit code", nil, checkRecoverEnded},
	{"recover-gone", "a task of which nothing is left is not found, so that its caller does not wait for it", nil, checkRecoverGone},
	{"keeper-killed", "a task whose end nobody saw, since the driver's process that keeps it was killed, is no success", onMachine, checkKeeperKilled},
	{"foreign-handle", "a handle that is foreign or of an unknown version is refused", nil, checkForeignHandle},
	{"small-handle", "a handle is small", nil, checkSmallHandle},
}

func checkFreshProcess(b *bench) {
	config, handle := b.start(forever)
	b.reborn()
	_, err := b.d.InspectTask(b.ctx, config.ID)
	b.refused("inspecting a task before it is recovered", err, errdefs.NotFound)
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
	}
	b.running(config.ID, "after it is recovered")
	_, _, err = b.d.StartTask(b.ctx, config)
	b.refused("starting a recovered task", err, errdefs.AlreadyExists)
}

func checkRecoverRunning(b *bench) {
	script := "trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done"
	if b.fixed() {
		script = forever
	}
	config, handle := b.start(script)
	if !b.fixed() {
		b.up(config)
	} else {
		b.found(config)
	}
	first := processes(config)
	before, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil {
		b.t.Fatalf("InspectTask: %v", err)
	}
	for range 2 { // a task survives more than one process
		b.reborn()
		for range 2 { // recovering twice is not an error
			if err := b.d.RecoverTask(b.ctx, handle); err != nil {
				b.t.Fatalf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
			}
		}
		b.running(config.ID, "after it is recovered")
		if s, err := b.d.InspectTask(b.ctx, config.ID); err == nil && s.StartedAt.Sub(before.StartedAt).Abs() > clockSlack {
			b.t.Errorf("it was started at %s, and at %s once it was recovered", before.StartedAt, s.StartedAt)
		}
		if b.fixed() && !keepsSome(first, processes(config)) {
			b.t.Errorf("none of the processes that the task had before is there once it was recovered")
		}
	}
	if err := b.d.StopTask(b.ctx, config.ID, 5*time.Second, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if r := b.wait(config.ID); !b.fixed() && r.ExitCode != 6 {
		b.t.Errorf("result %+v, want exit code 6", r)
	}
	if b.fixed() && len(remaining([]*driver.TaskConfig{config})) > 0 {
		b.t.Errorf("processes of the task run after it was stopped")
	}
}

// keepsSome reports whether a process of before is there now.
func keepsSome(before, now map[int]int) bool {
	for pid := range before {
		if _, there := now[pid]; there {
			return true
		}
	}
	return false
}

func checkRecoverEnded(b *bench) {
	config, handle := b.start("echo up; sleep 0.3; exit 9")
	b.up(config)
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
	}
	if r := b.wait(config.ID); r.ExitCode != 9 || r.Signal != 0 {
		b.t.Errorf("result %+v, want exit code 9", r)
	}
}

func checkRecoverGone(b *bench) {
	if b.subject.Foreign {
		b.t.Skipf("its protocol does not say so")
	}
	config, handle := b.start(forever)
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask with force: %v", err)
	}
	b.reborn()
	b.refused("recovering a task that was destroyed", b.d.RecoverTask(b.ctx, handle), errdefs.NotFound)
	_, err := b.d.InspectTask(b.ctx, config.ID)
	b.refused("inspecting the task that could not be recovered", err, errdefs.NotFound)
}

// checkKeeperKilled kills the parent of a task if it is a process of the plugin's file, and not
// the plugin, which is killed first. The exit code may be kept all the same.
func checkKeeperKilled(b *bench) {
	if !b.subject.Process || b.subject.Executable == "" || !canLog(b.d) {
		b.t.Skipf("needs a plugin process, and a task that prints to a file")
	}
	config, handle := b.start(`(cd local 2>/dev/null || cd "$NOMAD_TASK_DIR"; echo "kept by $PPID"; until [ -e over ]; do sleep 0.05; done); exit 7`)
	var keeper int
	b.eventually("the task says who its parent is", func() bool {
		body, _ := os.ReadFile(config.Logs.StdoutPath + ".0")
		n, _ := fmt.Sscanf(string(body), "kept by %d\n", &keeper)
		return n == 1
	})
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
	}
	if command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", keeper)); !slices.Contains(strings.Split(string(command), "\x00"), b.subject.Executable) {
		b.t.Skipf("no process of the plugin's file keeps the task")
	}
	if p, err := os.FindProcess(keeper); err == nil {
		_ = p.Kill() // it may have ended
	}
	if err := os.WriteFile(filepath.Join(config.TaskDir, "local", "over"), nil, 0o600); err != nil {
		b.t.Errorf("end the task: %v", err)
	}
	if r := b.wait(config.ID); r.Successful() {
		b.t.Errorf("the process that kept the task was killed, and its end is %+v; say in ExitResult.Err that the exit code is unknown", r)
	}
}

func checkForeignHandle(b *bench) {
	config, own := b.start(forever)
	b.reborn()
	for what, h := range map[string]*driver.Handle{
		"recovering a foreign handle":                          {TaskID: "drivertest-foreign", Version: own.Version, State: []byte("\x00not ours")},
		"recovering a foreign handle of an unknown version":    {TaskID: "drivertest-foreign", Version: 1 << 20, State: []byte("\x00not ours")},
		"recovering a handle of a version that does not exist": {TaskID: config.ID, Version: 1 << 20, State: own.State},
	} {
		if b.subject.Foreign && h.TaskID == config.ID {
			continue // the adapter for Nomad's protocol keeps the version inside the state
		}
		b.refused(what, b.d.RecoverTask(b.ctx, h), errdefs.InvalidArgument, errdefs.NotFound)
	}
	if err := b.d.RecoverTask(b.ctx, own); err != nil {
		b.t.Errorf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
	}
}

// maxHandle limits the size of a handle's state: the agent stores one per task on
// disk.
const maxHandle = 64 << 10

func checkSmallHandle(b *bench) {
	_, handle := b.start(forever)
	if n := len(handle.State); n > maxHandle {
		b.t.Errorf("the handle's state has %d bytes, want at most %d", n, maxHandle)
	}
}
