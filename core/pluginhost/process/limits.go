// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/confine"
)

// Limits for removing cgroups that other agents on this machine left behind: their
// minimum age, and how many are checked.
const (
	sweepAge = 5 * time.Minute
	maxSweep = 1000
)

// limiter puts plugin processes into cgroups with limits, if it may.
type limiter struct {
	groups *confine.Groups // nil where there are none
	limits map[string]confine.Limits
	// suffix distinguishes the cgroups of this agent from the cgroups of other agents on
	// the machine.
	suffix string
	log    hclog.Logger
	told   sync.Once

	mu      sync.Mutex
	granted map[string]confine.Limits // by plugin
	running map[string]map[int]bool   // the pids of the processes of each plugin
}

func newLimiter(limits map[string]confine.Limits, stateDir string, log hclog.Logger) *limiter {
	sum := sha256.Sum256([]byte(stateDir))
	l := &limiter{limits: limits, suffix: hex.EncodeToString(sum[:4]), log: log, granted: map[string]confine.Limits{}, running: map[string]map[int]bool{}}
	groups, err := confine.Find()
	if err != nil {
		l.cannot(err)
		return l
	}
	l.groups = groups
	groups.Sweep(time.Now().Add(-sweepAge), maxSweep)
	return l
}

func (l *limiter) group(plugin string) string { return plugin + "." + l.suffix }

// limit sets the limits of a plugin: the limits in its rights, which the options of the
// agent's configuration change.
func (l *limiter) limit(f File, rights *confine.Rights) {
	limits, asked := l.limits[f.Block()]
	if !asked {
		limits = l.limits["*"]
	}
	if limits.MemoryMB != 0 {
		rights.MemoryMB = limits.MemoryMB
	}
	if limits.Pids != 0 {
		rights.Pids = max(0, limits.Pids)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted[f.Name] = rights.Limits()
}

func (l *limiter) of(plugin string) confine.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted[plugin]
}

// note remembers a process of a plugin.
func (l *limiter) note(plugin string, pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[plugin] == nil {
		l.running[plugin] = map[int]bool{}
	}
	l.running[plugin][pid] = true
}

func (l *limiter) pids(plugin string) map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.running[plugin])
}

// birth returns the cgroup in which a plugin's process is to be born; nil if there is
// none. Failure is not fatal, because an agent need not be root.
func (l *limiter) birth(plugin string) *confine.Birth {
	if l.groups == nil {
		return nil
	}
	b, err := l.groups.Birth(l.group(plugin), l.of(plugin))
	if err != nil {
		l.unlimited(plugin, err)
	}
	return b
}

// hold puts a process that was just started, and its children, into its plugin's cgroup, if
// it could not be born there.
func (l *limiter) hold(plugin string, pid int) {
	if err := l.groups.Put(l.group(plugin), pid, l.of(plugin)); err != nil {
		l.unlimited(plugin, err)
	}
	// From here on its children are born in the cgroup; these were born before.
	for _, child := range confine.Descendants(pid) {
		_ = l.groups.Put(l.group(plugin), child, l.of(plugin)) // it may have ended
	}
}

// unlimited logs that a plugin runs without limits: for each plugin for which the operator
// has set limits, and once for all others.
func (l *limiter) unlimited(plugin string, err error) {
	if _, asked := l.limits[plugin]; asked {
		l.log.Warn("the limits of a plugin cannot be set, so it runs without", "plugin", plugin, "error", err)
		return
	}
	l.cannot(err)
}

// ended forgets a process. With all, it also ends the processes that are left in the
// plugin's cgroup.
func (l *limiter) ended(plugin string, pid int, all bool) {
	l.mu.Lock()
	delete(l.running[plugin], pid)
	l.mu.Unlock()
	if !all || l.groups == nil {
		return
	}
	if n := l.groups.EndOthers(l.group(plugin), l.pids(plugin)); n > 0 {
		l.log.Warn("a plugin ended and left processes behind, which are ended", "plugin", plugin, "processes", n)
	}
}

// freeTasks moves the processes that a driver has started out of its limits.
func (l *limiter) freeTasks(plugin string, settled func(pid int) bool) {
	if l.groups != nil {
		own := l.pids(plugin)
		l.groups.FreeTasks(l.group(plugin), func(pid int) bool { return !own[pid] && settled(pid) })
	}
}

// cannot logs once that plugins have no limits.
func (l *limiter) cannot(err error) {
	l.told.Do(func() { l.log.Debug("plugins run without limits of processes and memory", "error", err) })
}

// kills returns how many processes of a plugin were killed for its memory limit.
func (l *limiter) kills(plugin string) int {
	if l.groups == nil || l.of(plugin).MemoryMB == 0 {
		return 0
	}
	return l.groups.OOMKills(l.group(plugin))
}

// why explains that a process was killed for its memory limit, if the count of such
// kills has increased.
func (l *limiter) why(plugin string, before int) string {
	if l.kills(plugin) == before {
		return ""
	}
	return fmt.Sprintf("; it took more than its %d MiB of memory: raise memory_mb in the block plugin %q, or find out what it needs them for", l.of(plugin).MemoryMB, plugin)
}

// release removes the group of a plugin that has ended.
func (l *limiter) release(plugin string) {
	if l.groups == nil {
		return
	}
	// The kernel releases a process a moment after its end.
	for range 20 {
		if l.groups.Remove(l.group(plugin)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
