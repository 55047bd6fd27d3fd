// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Step is how far work on a plugin has come.
type Step string

// The steps, in their order. A work need not have all.
const (
	StepFetching   Step = "fetching"   // Done and Total are bytes
	StepVerifying  Step = "verifying"  // the file's digest
	StepStarting   Step = "starting"   // a process beside the one that serves
	StepRecovering Step = "recovering" // Done and Total are tasks
	StepProbing    Step = "probing"    // the configuration and the fingerprints
	StepSwitching  Step = "switching"  // from here on it goes on to its end
)

// Work is what is being done to a plugin, or was done to it last.
type Work struct {
	Action      string // "install", "rollback", "reload", or "follow" of a file that was replaced
	Step        Step   // the last one, of work that has ended
	Done, Total int64  // of the step; Total 0: not known
	Began       time.Time
	Ended       time.Time // zero: it is under way
	Err         error     // why it came to nothing
}

// works are those of all plugins by name.
type works struct {
	mu     sync.Mutex
	byName map[string]*Work
}

// maxEnded bounds how many ended works are remembered.
const maxEnded = 64

func newWorks() *works { return &works{byName: map[string]*Work{}} }

// begin replaces the work of before. The caller holds the plugin's lock, and calls
// end with its outcome.
func (w *works) begin(name, action string) (end func(error)) {
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

// prune forgets the oldest of too many that have ended; w.mu is held.
func (w *works) prune() {
	ended := slices.DeleteFunc(slices.Collect(maps.Keys(w.byName)), func(name string) bool { return w.byName[name].Ended.IsZero() })
	if len(ended) <= maxEnded {
		return
	}
	delete(w.byName, slices.MinFunc(ended, func(a, b string) int { return w.byName[a].Ended.Compare(w.byName[b].Ended) }))
}

// step notes where the work on a plugin stands, if there is any.
func (w *works) step(name string, step Step, total int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil && one.Ended.IsZero() {
		one.Step, one.Done, one.Total = step, 0, total
	}
}

// add notes that n more of the step are done.
func (w *works) add(name string, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil && one.Ended.IsZero() {
		one.Done += n
	}
}

// recovering begins the recovery of n tasks; what is done after it is probing.
func (w *works) recovering(name string, n int) {
	if n == 0 {
		w.step(name, StepProbing, 0)
		return
	}
	w.step(name, StepRecovering, int64(n))
}

// recovered notes that one more task is.
func (w *works) recovered(name string) {
	w.add(name, 1)
	if one := w.get(name); one != nil && one.Step == StepRecovering && one.Done >= one.Total {
		w.step(name, StepProbing, 0)
	}
}

// get returns a copy; nil for none.
func (w *works) get(name string) *Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byName[name]; one != nil {
		out := *one
		return &out
	}
	return nil
}

// forget drops the work of a plugin that is removed.
func (w *works) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byName, name)
}

// newcomers are the plugins that there is work on and that are not known yet, or
// did not become any.
func (w *works) newcomers(known func(name string) bool) []PluginStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []PluginStatus
	for name, one := range w.byName {
		copied := *one
		switch {
		case known(name):
		case one.Ended.IsZero():
			out = append(out, PluginStatus{Name: name, State: StateInstalling, Work: &copied})
		case one.Err != nil:
			out = append(out, PluginStatus{Name: name, State: StateNotInstalled, LastError: one.Err, Work: &copied})
		}
	}
	return out
}

// written counts what is written.
type written func(n int64)

func (w written) Write(p []byte) (int, error) {
	w(int64(len(p)))
	return len(p), nil
}
