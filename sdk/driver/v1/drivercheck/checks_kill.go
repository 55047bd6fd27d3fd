// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var killChecks = []Check{
	{"start-killed", "if the plugin is killed in the middle of a start, a destroy in its next process leaves nothing of it, and the task can be started again", nil, checkStartKilled},
}

// killMoments is the number of starts in whose middle the plugin is killed. The moments are
// spread evenly over the time of a start, also the first few kills: killStride has no
// divisor in common with their number. A plugin that takes long to start is killed at fewer
// moments, but at least at minKillMoments.
const (
	killMoments    = 20
	killStride     = 7
	minKillMoments = 5
)

func checkStartKilled(b *bench) {
	switch {
	case !b.subject.Process:
		b.t.Skipf("needs a process that can be killed")
	case b.subject.Foreign:
		b.t.Skipf("Nomad's protocol does not tell a driver where to look for what an earlier process began; the host ends what it finds")
	}
	moments, starts := killMoments, 0
	if b.fixed() {
		moments, starts = minKillMoments, 2*minKillMoments+1
	}
	see := b.life(starts)
	ordinary := b.task(see.script)
	begun := time.Now()
	b.startConfig(b.ctx, ordinary)
	took := time.Since(begun)
	var killed []*driver.TaskConfig
	enough := begun.Add(b.timeLeft() / 5) // the rest is for the starts that follow, each of which takes its whole time
	for i := range moments {
		if i >= minKillMoments && time.Now().After(enough) {
			break
		}
		config := b.task(see.script)
		b.started = append(b.started, config.Ref())
		killed = append(killed, config)
		b.killWithin(config, took*time.Duration(i*killStride%killMoments+1)/killMoments)
		if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
			b.t.Fatalf("DestroyTask of a task whose start was interrupted: %v", err)
		}
	}
	if err := b.d.DestroyTask(b.ctx, ordinary.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask of a task that an earlier process started: %v", err)
	}
	killed = append(killed, ordinary)
	if left := see.alive(killed); len(left) > 0 {
		b.t.Fatalf("of %d starts in whose middle the plugin was killed, %d tasks still run after DestroyTask", len(killed)-1, len(left))
	}
	if b.fixed() { // nobody knows how much each takes of the machine
		for _, config := range killed[:moments] {
			b.startAgain(see, []*driver.TaskConfig{config})
		}
	} else {
		b.startAgain(see, killed)
	}
	if left := see.alive(killed); len(left) > 0 {
		b.t.Fatalf("%d tasks that were started again still run after DestroyTask", len(left))
	}
}

// timeLeft is how long the check may still take.
func (b *bench) timeLeft() time.Duration {
	deadline, _ := b.ctx.Deadline() // every check has one
	return time.Until(deadline)
}

// killWithin starts a task, kills the plugin after a time, and connects to its next
// process.
func (b *bench) killWithin(config *driver.TaskConfig, after time.Duration) {
	ended := make(chan struct{})
	go func(d driver.Driver) {
		defer close(ended)
		_, _, _ = d.StartTask(b.ctx, config) // whether it succeeds depends on the moment
	}(b.d)
	select {
	case <-ended:
	case <-time.After(after):
	}
	b.reborn()
	<-ended
}

// startAgain starts the tasks, checks that each runs once, and destroys them.
func (b *bench) startAgain(see life, configs []*driver.TaskConfig) {
	before := map[string]int64{}
	for _, config := range configs {
		before[config.ID] = see.mark(config)
		if _, _, err := b.d.StartTask(b.ctx, config); err != nil {
			b.t.Fatalf("StartTask after DestroyTask of an interrupted start: %v", err)
		}
	}
	for _, config := range configs {
		if runs := see.runs(config, before[config.ID]); runs != 1 {
			b.t.Errorf("a task that was started again after an interrupted start runs %d times, want once", runs)
		}
		if _, _, err := b.d.StartTask(b.ctx, config); !errdefs.IsAlreadyExists(err) {
			b.t.Errorf("StartTask of a task that runs: %v, want AlreadyExists", err)
		}
		if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
			b.t.Fatalf("DestroyTask: %v", err)
		}
	}
}

// beatRuns counts the runs of a script that has written beats after an offset.
func (b *bench) beatRuns(config *driver.TaskConfig, offset int64) int {
	var runs []string
	b.eventually("a task that was started again runs", func() bool {
		lines := beatsAfter(config, offset)
		slices.Sort(lines)
		runs = slices.Compact(slices.Clone(lines))
		return len(lines) > 10
	})
	return len(runs)
}

// beatsAfter returns the complete lines of the beat file after an offset.
func beatsAfter(config *driver.TaskConfig, offset int64) []string {
	body, err := os.ReadFile(filepath.Join(config.TaskDir, "local", "beat"))
	if err != nil || int64(len(body)) < offset {
		return nil
	}
	lines := strings.Split(string(body[offset:]), "\n")
	return lines[:len(lines)-1]
}

// notSilent returns the tasks that still write their beats. It waits for many periods of beat,
// which allows for a busy machine.
func notSilent(configs []*driver.TaskConfig) []*driver.TaskConfig {
	before := map[string]int64{}
	for _, config := range configs {
		before[config.ID] = beats(config)
	}
	<-time.After(500 * time.Millisecond)
	return slices.DeleteFunc(slices.Clone(configs), func(config *driver.TaskConfig) bool { return beats(config) == before[config.ID] })
}
