// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Step is a phase of an operation on a plugin.
type Step string

// Actions of an installation.
const (
	ActionInstall = "install" // first installation of a plugin
	ActionUpgrade = "upgrade"
)

// The steps, in order. An operation need not have all of them.
const (
	StepFetching   Step = "fetching"   // Done and Total are bytes
	StepVerifying  Step = "verifying"  // the file's digest
	StepStarting   Step = "starting"   // a new process beside the serving one
	StepRecovering Step = "recovering" // Done and Total are tasks
	StepProbing    Step = "probing"    // the configuration and the fingerprints
	StepSwitching  Step = "switching"  // from here on it cannot be cancelled
)

// Work is the current or last operation on a plugin.
type Work struct {
	Action      string // "install" for the first time, "upgrade", "rollback", "reload", or "follow" of a file that was replaced
	Step        Step   // the last one, if the operation has ended
	Done, Total int64  // progress of the step; a Total of 0 means unknown
	Began       time.Time
	Ended       time.Time // zero while in progress
	Err         error     // why it failed
}

// Works holds the operations of all plugins by name.
type Works struct {
	mu     sync.Mutex
	byName map[string]*Work
}

// maxEnded is the number of ended operations that are remembered.
const maxEnded = 64

// NewWorks returns no operations.
func NewWorks() *Works { return &Works{byName: map[string]*Work{}} }

// Begin records a new operation. The caller holds the plugin's lock, and calls end
// with the outcome.
func (w *Works) Begin(name, action string) (end func(error)) {
	one := &Work{Action: action, Began: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byName[name] = one
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		one.Ended, one.Err = time.Now(), err
		w.prune()
	}
}

// prune removes the oldest ended operations above the limit. w.mu must be held.
func (w *Works) prune() {
	ended := slices.DeleteFunc(slices.Collect(maps.Keys(w.byName)), func(name string) bool { return w.byName[name].Ended.IsZero() })
	if len(ended) <= maxEnded {
		return
	}
	delete(w.byName, slices.MinFunc(ended, func(a, b string) int { return w.byName[a].Ended.Compare(w.byName[b].Ended) }))
}

// Step records the current step of an operation, if there is one.
func (w *Works) Step(name string, step Step, total int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil && one.Ended.IsZero() {
		one.Step, one.Done, one.Total = step, 0, total
	}
}

// add adds n to the progress of the step.
func (w *Works) add(name string, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil && one.Ended.IsZero() {
		one.Done += n
	}
}

// Recovering begins the step of recovering n tasks; probing follows.
func (w *Works) Recovering(name string, n int) {
	if n == 0 {
		w.Step(name, StepProbing, 0)
		return
	}
	w.Step(name, StepRecovering, int64(n))
}

// Recovered records that one more task was recovered.
func (w *Works) Recovered(name string) {
	w.add(name, 1)
	if one := w.Get(name); one != nil && one.Step == StepRecovering && one.Done >= one.Total {
		w.Step(name, StepProbing, 0)
	}
}

// Get returns a copy; nil for none.
func (w *Works) Get(name string) *Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil {
		out := *one
		return &out
	}
	return nil
}

// Forget drops the work of a plugin that is removed.
func (w *Works) Forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byName, name)
}

// All returns copies of all operations, by plugin.
func (w *Works) All() map[string]Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]Work, len(w.byName))
	for name, one := range w.byName {
		out[name] = *one
	}
	return out
}

// written counts what is written.
type written func(n int64)

func (w written) Write(p []byte) (int, error) {
	w(int64(len(p)))
	return len(p), nil
}
