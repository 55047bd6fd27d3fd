// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// life is how a check sees what runs of a task: by what its script writes or, where the task is
// a fixed one, by its processes.
type life struct {
	script string
	// alive returns the tasks of which a process still runs.
	alive func([]*driver.TaskConfig) []*driver.TaskConfig
	// runs waits until a task runs that was started after mark, and returns how many times it
	// runs.
	mark func(*driver.TaskConfig) int64
	runs func(config *driver.TaskConfig, mark int64) int
}

// fixed reports whether there is only one task to check with, which need not be a script.
func (b *bench) fixed() bool { return b.subject.Script == nil && b.subject.Forever != nil }

// Limits of what a fixed task takes: its processes are there at the latest findLimit after its
// start, have all begun settle later, and are gone at the latest goneLimit after its end.
const (
	findLimit = 3 * time.Second
	settle    = 200 * time.Millisecond
	goneLimit = 5 * time.Second
)

// life returns how to see the tasks of a check that starts so many. The check is skipped if the
// processes of a fixed task cannot be found, or if its starts take too long for the check's time.
func (b *bench) life(starts int) life {
	if !b.fixed() {
		return life{script: beat, alive: notSilent, mark: beats, runs: b.beatRuns}
	}
	config := b.task(forever)
	begun := time.Now()
	b.startConfig(b.ctx, config)
	took := time.Since(begun)
	trees := b.found(config)
	if need := took * time.Duration(starts); need > b.timeLeft()/2 {
		b.t.Skipf("a start of the task takes %s, which is too long for the %d starts of this rule; allow more time with -timeout", took.Round(time.Millisecond), starts)
	}
	b.makeRoom(config)
	return life{
		script: forever, alive: remaining, mark: func(*driver.TaskConfig) int64 { return 0 },
		runs: func(config *driver.TaskConfig, _ int64) int {
			b.eventually("a task that was started again has processes", func() bool { return len(processes(config)) > 0 })
			<-time.After(settle)
			return (treesOf(config) + trees - 1) / trees
		},
	}
}

// makeRoom destroys a fixed task: another one may need what it has, such as a disk.
func (b *bench) makeRoom(config *driver.TaskConfig) {
	if !b.fixed() {
		return
	}
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask: %v", err)
	}
}

// found returns the number of trees of processes of a fixed task that runs. It skips the check
// if there is none: the task may run in a machine of its own.
func (b *bench) found(config *driver.TaskConfig) int {
	for end := time.Now().Add(findLimit); len(processes(config)) == 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Skipf("no process on this machine has %s=%s in its environment or that id in its command line, so that what runs of the task cannot be seen; "+
				"give a task config that runs a shell script", idVariable, config.ID)
		}
	}
	<-time.After(settle)
	return max(1, treesOf(config))
}

// processes returns the processes of a task, each with its parent.
func processes(config *driver.TaskConfig) map[int]int { return conformance.Processes(config.ID) }

// treesOf returns the number of processes of a task whose parent is none of them.
func treesOf(config *driver.TaskConfig) (n int) {
	all := processes(config)
	for _, parent := range all {
		if _, own := all[parent]; !own {
			n++
		}
	}
	return n
}

// remaining returns the tasks that still have processes after a while, in which processes that
// were killed end, and what a start goes on to do begins.
func remaining(configs []*driver.TaskConfig) []*driver.TaskConfig {
	<-time.After(settle)
	left := slices.Clone(configs)
	for end := time.Now().Add(goneLimit); ; <-time.After(50 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(config *driver.TaskConfig) bool { return len(processes(config)) == 0 })
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}
