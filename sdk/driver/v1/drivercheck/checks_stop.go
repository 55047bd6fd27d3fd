// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"slices"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var stopChecks = []Check{
	{"signal", "a task that a signal ends reports it", canSignal, checkSignal},
	{"stop-kills", "a stop that is ignored escalates to a kill when its timeout has passed, and not long after", nil, checkKill},
	{"stop-default", "a stop that names no signal lets a task that handles signals end by itself", nil, checkStopDefault},
	{"stop-at-once", "a stop without any timeout kills at once", nil, checkStopAtOnce},
	{"stop-cancelled", "a stop whose context ends early still kills the task", nil, checkStopCancelled},
	{"stop-signal", "a stop with an unknown signal is refused", nil, checkStopSignal},
	{"stop-tree", "a stop ends the processes that a task started", nil, checkStopTree},
	{"destroy-tree", "a destroy with force ends the processes that a task started", nil, checkDestroyTree},
	{"signal-defaults", "no signal is ignored in a task because its plugin ignores it", onMachine, checkSignalDefaults},
}

func checkSignal(b *bench) {
	config, _ := b.start("echo up; exec sleep 600")
	b.up(config)
	b.refused("an unknown signal", b.d.SignalTask(b.ctx, config.ID, "SIGNONSENSE"), errdefs.InvalidArgument)
	if err := b.d.SignalTask(b.ctx, config.ID, "SIGINT"); err != nil {
		b.t.Fatalf("SignalTask: %v", err)
	}
	numbers := []int{2}
	if !onMachine(b.d) && b.goesOn(config.ID) {
		numbers = []int{2, 9} // process 1 of a PID namespace ignores signals that it does not handle, or it takes its time
		if err := b.d.SignalTask(b.ctx, config.ID, "SIGKILL"); err != nil {
			b.t.Fatalf("SignalTask: %v", err)
		}
	}
	if r := b.wait(config.ID); r.Successful() || !b.subject.Foreign && (!slices.Contains(numbers, r.Signal) || r.ExitCode != 128+r.Signal) {
		b.t.Errorf("result %+v, want one of the signals %v and an exit code of 128 more", r, numbers)
	}
	b.refused("signalling a task that has ended", b.d.SignalTask(b.ctx, config.ID, "SIGINT"), errdefs.FailedPrecondition)
}

// goesOn reports whether the task still runs after a second.
func (b *bench) goesOn(id string) bool {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	_, err := b.d.WaitTask(ctx, id)
	return errdefs.IsDeadlineExceeded(err)
}

// up waits until the task has printed "up". It does not wait if the driver collects no
// logs.
func (b *bench) up(config *driver.TaskConfig) {
	if canLog(b.d) {
		b.eventually("the task prints up", printed(config.Logs.StdoutPath+".0", "up"))
	}
}

// stubborn is the script of a task that only SIGKILL ends.
const stubborn = "trap '' TERM INT; echo up; while :; do sleep 0.05; done"

func checkKill(b *bench) {
	config, _ := b.start(stubborn)
	b.up(config)
	const timeout = 2 * time.Second
	begin := time.Now()
	if err := b.d.StopTask(b.ctx, config.ID, timeout, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	switch took := time.Since(begin); {
	case took < timeout:
		b.t.Errorf("killed after %s, before its timeout of %s", took, timeout)
	case took > timeout+aWhile:
		b.t.Errorf("killed after %s, long after its timeout of %s", took, timeout)
	}
	if r := b.wait(config.ID); r.Signal != 9 && !(b.subject.Foreign && r.ExitCode == 137) {
		b.t.Errorf("result %+v, want signal 9", r)
	}
}

func checkStopDefault(b *bench) {
	config, _ := b.start("trap 'exit 6' TERM INT QUIT HUP; echo up; while :; do sleep 0.05; done")
	b.up(config)
	if err := b.d.StopTask(b.ctx, config.ID, aWhile, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if r := b.wait(config.ID); r.ExitCode != 6 {
		b.t.Errorf("result %+v, want exit code 6, with which the task ends at SIGTERM, SIGINT, SIGQUIT and SIGHUP", r)
	}
}

func checkStopAtOnce(b *bench) {
	config, _ := b.start(stubborn)
	b.up(config)
	begin := time.Now()
	if err := b.d.StopTask(b.ctx, config.ID, 0, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if took := time.Since(begin); took > aWhile { // half of the task's kill timeout
		b.t.Errorf("a stop with a timeout of 0 took %s", took)
	}
	if r := b.wait(config.ID); r.Successful() {
		b.t.Errorf("result %+v of a task that was killed", r)
	}
}

func checkStopCancelled(b *bench) {
	config, _ := b.start(stubborn)
	b.up(config)
	ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
	defer cancel()
	if err := b.d.StopTask(ctx, config.ID, 500*time.Millisecond, "SIGTERM"); err != nil {
		b.refused("the stop", err, errdefs.DeadlineExceeded, errdefs.Canceled)
	}
	if r := b.wait(config.ID); r.Successful() {
		b.t.Errorf("result %+v of a task that was killed", r)
	}
}

func checkStopSignal(b *bench) {
	config, _ := b.start(forever)
	b.refused("a stop with an unknown signal", b.d.StopTask(b.ctx, config.ID, time.Second, "SIGNONSENSE"), errdefs.InvalidArgument)
	b.running(config.ID, "after a stop that was refused")
}

// family is the script of a task whose child ignores the signal and keeps writing.
const family = "(trap '' TERM; " + beat + ") & echo up; wait"

func checkStopTree(b *bench) {
	config, _ := b.start(family)
	b.up(config)
	b.eventually("the child writes to the task's local directory", func() bool { return beats(config) > 0 })
	if err := b.d.StopTask(b.ctx, config.ID, 200*time.Millisecond, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	b.wait(config.ID)
	// The child may receive the kill shortly after StopTask returns, so wait up to the
	// check's limit.
	b.eventually("the child of the stopped task is gone", func() bool { return silent(config) })
}

func checkDestroyTree(b *bench) {
	config, _ := b.start(family)
	b.up(config)
	b.eventually("the child writes to the task's local directory", func() bool { return beats(config) > 0 })
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask: %v", err)
	}
	b.eventually("the child of the destroyed task is gone", func() bool { return silent(config) })
}

func checkSignalDefaults(b *bench) {
	for name, number := range map[string]int{"HUP": 1, "INT": 2, "PIPE": 13, "TERM": 15} {
		config, _ := b.start("kill -" + name + " $$; exit 3")
		if r := b.wait(config.ID); r.Signal != number && !(b.subject.Foreign && r.ExitCode == 128+number) {
			b.t.Errorf("a task that sends itself SIG%s ended with %+v", name, r)
		}
	}
}
