// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"io"
	"os"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// pauseChecks are the rules of driver.Pauser.
var pauseChecks = []Check{
	{"pause-holds", "nothing of a paused task runs until it is resumed, also across a new process of the driver; both calls may be repeated", canPause, checkPauseHolds},
	{"pause-ends", "a paused task is stopped by its signal and destroyed by force as any other; one that has ended or is unknown is refused", canPauseAndSignal, checkPauseEnds},
}

// canPause is the condition (Check.needs) of rules that read the output of a task.
func canPause(d driver.Driver) bool { return has(driver.FeaturePause)(d) && canLog(d) }

// canPauseAndSignal is the condition (Check.needs) of rules whose task also acts on a
// signal.
func canPauseAndSignal(d driver.Driver) bool { return canPause(d) && canSignal(d) }

// counter is a script that prints numbers until it is stopped, and ends with code 7 when it
// gets SIGTERM.
const counter = `trap 'exit 7' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done`

// counting starts a task that counts, in a cgroup of the host if the driver wants one. end
// removes the cgroup.
func (b *bench) counting() (config *driver.TaskConfig, handle *driver.Handle, end func()) {
	config, end = b.task(counter), func() {}
	if wantsCgroup(b.d) && !b.subject.Foreign {
		config.Cgroup = b.cgroup()
		end = func() {
			b.end()
			b.removeCgroup(config.Cgroup)
		}
	}
	handle = b.startConfig(b.ctx, config)
	b.eventually("the task counts", printed(config.Logs.StdoutPath+".0", "3\n"))
	return config, handle, end
}

// pause pauses the task. A machine may lack what the driver needs for it.
func (b *bench) pause(id string) {
	err := b.d.(driver.Pauser).PauseTask(b.ctx, id)
	if errdefs.IsFailedPrecondition(err) {
		b.t.Skipf("no task can be paused here: %v", err)
	}
	if err != nil {
		b.t.Fatalf("PauseTask: %v", err)
	}
}

// paused records a problem if the driver does not report the expected TaskStatus.Paused of
// a running task.
func (b *bench) paused(id, when string, want bool) {
	status, err := b.d.InspectTask(b.ctx, id)
	if err != nil || status.State != driver.TaskRunning || status.Paused != want {
		b.t.Errorf("%s the task should run with Paused = %t, and is %+v, %v", when, want, status, err)
	}
}

// still is how long the output of a paused task is watched, and settled how long earlier
// output may take to reach the file.
const still, settled = 400 * time.Millisecond, 200 * time.Millisecond

// rest waits for d, or fails when the check's time is up.
func (b *bench) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
		b.t.Fatalf("the time of the check is up: %v", b.ctx.Err())
	}
}

// length is how much a task has printed.
func length(config *driver.TaskConfig) int64 {
	info, err := os.Stat(config.Logs.StdoutPath + ".0")
	if err != nil {
		return 0
	}
	return info.Size()
}

// holds records a problem if the task prints although it is paused.
func (b *bench) holds(config *driver.TaskConfig, when string) {
	b.rest(settled)
	before := length(config)
	b.rest(still)
	if after := length(config); after != before {
		b.t.Errorf("%s the task printed %d bytes", when, after-before)
	}
}

func checkPauseHolds(b *bench) {
	config, handle, end := b.counting()
	defer end()
	b.paused(config.ID, "before it is paused", false)
	b.pause(config.ID)
	b.paused(config.ID, "after PauseTask", true)
	b.holds(config, "while it is paused")
	b.pause(config.ID)
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask of a paused task in a new process: %v", err)
	}
	b.paused(config.ID, "in a new process", true)
	b.holds(config, "after a new process has recovered it")
	if canExec(b.d) {
		_, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"/bin/true"}}, driver.ExecStream{Stdin: nobody{}, Stdout: io.Discard, Stderr: io.Discard})
		b.refused("a command in a paused task", err, errdefs.FailedPrecondition)
	}
	before := length(config)
	for _, what := range []string{"ResumeTask", "a second ResumeTask"} {
		if err := b.d.(driver.Pauser).ResumeTask(b.ctx, config.ID); err != nil {
			b.t.Errorf("%s: %v", what, err)
		}
	}
	b.paused(config.ID, "after ResumeTask", false)
	b.eventually("the task counts on after ResumeTask", func() bool { return length(config) > before })
}

func checkPauseEnds(b *bench) {
	p := b.d.(driver.Pauser)
	config, _, end := b.counting()
	defer end()
	b.pause(config.ID)
	if err := b.d.StopTask(b.ctx, config.ID, time.Minute, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask of a paused task: %v", err)
	}
	if r := b.wait(config.ID); r.ExitCode != 7 {
		b.t.Errorf("a paused task that was stopped ended with %+v; its handler of SIGTERM ends it with code 7", r)
	}
	b.refused("to pause a task that has ended", p.PauseTask(b.ctx, config.ID), errdefs.FailedPrecondition)
	b.refused("to resume a task that has ended", p.ResumeTask(b.ctx, config.ID), errdefs.FailedPrecondition)
	b.refused("to pause an unknown task", p.PauseTask(b.ctx, "no-such-task"), errdefs.NotFound)
	b.refused("to resume an unknown task", p.ResumeTask(b.ctx, "no-such-task"), errdefs.NotFound)
	other, _, endOther := b.counting()
	defer endOther()
	b.pause(other.ID)
	if err := b.d.DestroyTask(b.ctx, other.Ref(), true); err != nil {
		b.t.Errorf("DestroyTask of a paused task, with force: %v", err)
	}
}

// nobody is an input that never returns data.
type nobody struct{}

func (nobody) Read([]byte) (int, error) { return 0, io.EOF }
