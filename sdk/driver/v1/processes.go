// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeatureProcessStats: the driver is a ProcessMeter.
const FeatureProcessStats Feature = "process_stats"

// ProcessMeter is implemented by drivers that can measure the single processes of a task.
// The agent calls it only when somebody asks for the figures of one task, so they cost
// nothing otherwise; such a driver need not fill TaskStats.Pids.
type ProcessMeter interface {
	// ProcessStats returns the usage of each process of the task, by process id as the
	// machine numbers processes. The result is empty if the task has ended. CPU figures
	// cover the time since the previous call for the task, or the life of the process if
	// there was none. NotFound: there is no such task.
	ProcessStats(ctx context.Context, taskID string) (map[string]PidStats, error)
}

func (s *server) ProcessStats(ctx context.Context, req *driverv1.ProcessStatsRequest) (*driverv1.ProcessStatsResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	m, ok := d.(ProcessMeter)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q does not measure single processes", req.GetDriver()))
	}
	found, err := m.ProcessStats(ctx, req.GetTaskId())
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return &driverv1.ProcessStatsResponse{Processes: pidsToPB(found)}, nil
}

// ProcessStats implements ProcessMeter.
func (c *client) ProcessStats(ctx context.Context, taskID string) (map[string]PidStats, error) {
	resp, err := c.rpc.ProcessStats(ctx, &driverv1.ProcessStatsRequest{Driver: c.info.Name, TaskId: taskID})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return pidsFromPB(resp.GetProcesses()), nil
}

func pidsToPB(in map[string]PidStats) map[string]*driverv1.Usage {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]*driverv1.Usage, len(in))
	for pid, u := range in {
		out[pid] = usageToPB(u.CPU, u.Memory)
	}
	return out
}

func pidsFromPB(in map[string]*driverv1.Usage) map[string]PidStats {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]PidStats, len(in))
	for pid, u := range in {
		c, m := usageFromPB(u)
		out[pid] = PidStats{CPU: c, Memory: m}
	}
	return out
}
