// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/confine"
)

// DefaultPids is the default limit of processes and threads of a plugin: far above
// what one needs, far below what a machine supports. Memory has no default limit.
const DefaultPids = 16384

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
	// suffix distinguishes the cgroups of this agent from those of others on the
	// machine.
	suffix string
	log    hclog.Logger
	told   sync.Once
}

func newLimiter(limits map[string]confine.Limits, stateDir string, log hclog.Logger) *limiter {
	sum := sha256.Sum256([]byte(stateDir))
	l := &limiter{limits: limits, suffix: hex.EncodeToString(sum[:4]), log: log}
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

// of returns the limits of a plugin, and whether they are configured.
func (l *limiter) of(plugin string) (limits confine.Limits, asked bool) {
	limits, asked = l.limits[plugin]
	if !asked {
		limits, asked = l.limits["*"]
	}
	switch {
	case limits.Pids < 0:
		limits.Pids = 0
	case limits.Pids == 0:
		limits.Pids = DefaultPids
	}
	return limits, asked
}

// hold puts a process into its plugin's cgroup. Failure is not fatal, because an agent
// need not be root.
func (l *limiter) hold(plugin string, pid int) {
	if l.groups == nil {
		return
	}
	limits, asked := l.of(plugin)
	err := l.groups.Put(l.group(plugin), pid, limits)
	switch {
	case err == nil:
	case asked:
		l.log.Warn("the limits of a plugin cannot be set, so it runs without", "plugin", plugin, "error", err)
	default:
		l.cannot(err)
	}
}

// cannot logs once that plugins have no limits.
func (l *limiter) cannot(err error) {
	l.told.Do(func() { l.log.Debug("plugins run without limits of processes and memory", "error", err) })
}

// kills returns how many processes of a plugin were killed for its memory limit.
func (l *limiter) kills(plugin string) int {
	limits, _ := l.of(plugin)
	if l.groups == nil || limits.MemoryMB == 0 {
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
	limits, _ := l.of(plugin)
	return fmt.Sprintf("; it took more than its %d MiB of memory: raise the option plugin.%s.memory_mb, or find out what it needs them for", limits.MemoryMB, plugin)
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
