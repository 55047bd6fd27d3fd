// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
)

// Machine measures the machine and its devices.
type Machine interface {
	HostStats(ctx context.Context) []pluginhost.HostReading
	DeviceStats(ctx context.Context) []device.GroupStats
}

// Samples are measurements of tasks. Get returns false for a task without one: its
// driver does not measure, or it has just ended.
type Samples interface {
	Get(ctx context.Context, d driver.Driver, taskID string) (driver.TaskStats, bool)
}

func (s *Server) answerHostStats(ctx context.Context, send func([]byte) error) error {
	out, err := stats.OfHost(s.cfg.Machine.HostStats(ctx), s.cfg.MHz)
	if err != nil {
		return err
	}
	if u, err := fingerprint.DirUse(ctx, s.cfg.Root); err == nil { // the directory is the node's own, not the machine's
		out.AllocDirStats = &stats.HostDisk{
			Device: u.Device, Size: u.Size, Used: u.Used, Available: u.Available, UsedPercent: u.UsedPercent, InodesUsedPercent: u.InodesUsedPercent,
		}
	}
	out.DeviceStats = stats.OfDevices(s.cfg.Machine.DeviceStats(ctx))
	return sendJSON(send, out)
}

func (s *Server) answerStats(ctx context.Context, q rpc.AllocRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	runs, err := r.Running(q.Task)
	if err != nil {
		return err
	}
	out, given := stats.NewAllocUsage(), r.Alloc()
	var measured []*stats.DeviceGroup
	if hasDevices(given) {
		measured = stats.OfDevices(s.cfg.Machine.DeviceStats(ctx))
	}
	for _, run := range runs {
		if sample, ok := s.cfg.Samples.Get(ctx, run.Driver, run.ID); ok { // otherwise its driver does not measure, or the task has just ended
			if pids := processesOf(ctx, run.Driver, run.ID); pids != nil {
				sample.Pids = pids
			}
			out.Add(run.Task, sample, s.cfg.MHz, stats.GivenTo(alloc.DevicesOf(given, run.Task), measured))
		}
	}
	return sendJSON(send, out)
}

// processPatience is how long an answer waits for the figures of single processes.
const processPatience = 5 * time.Second

// processesOf asks a driver for the figures of a task's processes; nil if it has none.
func processesOf(ctx context.Context, d driver.Driver, taskID string) map[string]driver.PidStats {
	m, ok := d.(driver.ProcessMeter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, processPatience)
	defer cancel()
	out, err := m.ProcessStats(ctx, taskID)
	if err != nil {
		return nil // the figures of the task are an answer without them
	}
	return out
}

func hasDevices(v *model.Allocation) bool {
	if v.AllocatedResources == nil {
		return false
	}
	for name := range v.AllocatedResources.Tasks {
		if len(alloc.DevicesOf(v, name)) > 0 {
			return true
		}
	}
	return false
}
