// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervised

import (
	"context"
	"strconv"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// ProcessStats implements driver.ProcessMeter.
func (t *Tasks) ProcessStats(ctx context.Context, id string) (map[string]driver.PidStats, error) {
	status, err := t.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	now := supervisor.Processes(status)
	t.mu.Lock()
	before := t.processes[id]
	if t.known[id] != nil { // otherwise it was destroyed meanwhile
		t.processes[id] = now
	}
	t.mu.Unlock()
	out := make(map[string]driver.PidStats, len(now))
	for pid, p := range now {
		b, ok := before[pid]
		if !ok || b.Start != p.Start { // the pid has been reused
			b = supervisor.Process{At: p.StartedAt}
		}
		user, system := percent(p.User-b.User, p.At.Sub(b.At)), percent(p.System-b.System, p.At.Sub(b.At))
		out[strconv.Itoa(pid)] = driver.PidStats{
			CPU:    driver.CPUStats{Percent: user + system, UserMode: user, SystemMode: system, Measured: []string{"Percent", "System Mode", "User Mode"}},
			Memory: driver.MemoryStats{RSS: p.RSS, Usage: p.RSS, Measured: []string{"RSS", "Usage"}},
		}
	}
	return out, nil
}
