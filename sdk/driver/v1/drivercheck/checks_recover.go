// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var recoverChecks = []Check{
	{"fresh-process", "a process starts with no tasks: one that another started is unknown until it is recovered", nil, checkFreshProcess},
	{"recover-running", "a running task is recovered after the plugin was killed, any number of times", nil, checkRecoverRunning},
	{"recover-ended", "a task that ended while no plugin ran is recovered with its exit code", nil, checkRecoverEnded},
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
	config, handle := b.start("trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done")
	b.up(config)
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
	}
	if err := b.d.StopTask(b.ctx, config.ID, 5*time.Second, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if r := b.wait(config.ID); r.ExitCode != 6 {
		b.t.Errorf("result %+v, want exit code 6", r)
	}
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
