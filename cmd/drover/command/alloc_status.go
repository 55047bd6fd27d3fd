// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func (s *session) findAlloc(ctx context.Context, prefix string) (*client.AllocDetail, error) {
	id, err := wholeID(ctx, "allocation", prefix, func(ctx context.Context, q *client.Query) ([]string, error) {
		list, _, err := s.anyNamespace().Allocations(ctx, q)
		return idsOf(list, func(a *model.AllocListStub) string { return a.ID }), err
	})
	if err != nil {
		return nil, err
	}
	a, _, err := s.client.Allocation(ctx, id, nil)
	return a, err
}

// anyNamespace looks for ids in all namespaces unless one was asked for.
func (s *session) anyNamespace() *client.Client {
	if s.cfg.Namespace == "" {
		return s.client.WithNamespace("*")
	}
	return s.client
}

func idsOf[T any](list []T, id func(T) string) []string {
	var out []string
	for _, e := range list {
		out = append(out, id(e))
	}
	return out
}

func allocStatus() spec {
	return spec{
		usage: "alloc status [options] <allocation>", synopsis: "Shows an allocation, its tasks and what happened to them", min: 0, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			short := fs.Bool("short", false, "Without events of tasks.")
			_ = fs.Bool("stats", false, "Kept for scripts.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					list, _, err := s.client.Allocations(ctx, nil)
					if err != nil {
						return err
					}
					return s.printJSON(list)
				}
				a, err := s.findAlloc(ctx, args[0])
				if err != nil {
					return err
				}
				if done, err := s.formatted(a); done {
					return err
				}
				s.describeAlloc(a.Allocation)
				s.describeTasks(a.Allocation, *short)
				if s.verbose && a.Metrics != nil {
					s.describePlacement(a.Metrics)
				}
				return nil
			}
		},
	}
}

func (s *session) describeAlloc(a *model.Allocation) {
	version := a.JobVersion
	if a.Job != nil {
		version = a.Job.Version
	}
	kv := []string{"ID", a.ID, "Eval ID", s.id(a.EvalID), "Name", a.Name, "Node ID", s.id(a.NodeID), "Node Name", a.NodeName,
		"Job ID", a.JobID, "Job Version", strconv.FormatUint(version, 10), "Client Status", a.ClientStatus, "Client Description", a.ClientDescription,
		"Desired Status", a.DesiredStatus, "Desired Description", a.DesiredDescription, "Created", ago(a.CreateTime), "Modified", ago(a.ModifyTime)}
	if a.DeploymentID != "" {
		health := "unset"
		if a.DeploymentStatus.IsHealthy() {
			health = "healthy"
		} else if a.DeploymentStatus.IsUnhealthy() {
			health = "unhealthy"
		}
		kv = append(kv, "Deployment ID", s.id(a.DeploymentID), "Deployment Health", health, "Canary", strconv.FormatBool(a.DeploymentStatus.IsCanary()))
	}
	for _, link := range [][2]string{{"Replacement Alloc ID", a.NextAllocation}, {"Previous Alloc ID", a.PreviousAllocation}, {"Reschedule Eval ID", a.FollowupEvalID}} {
		if link[1] != "" {
			kv = append(kv, link[0], s.id(link[1]))
		}
	}
	s.pairs(kv...)
	if r := a.AllocatedResources; r != nil && len(r.Shared.Ports) > 0 {
		s.title("\nAllocation Addresses:")
		var rows [][]string
		for _, p := range r.Shared.Ports {
			rows = append(rows, []string{p.Label, fmt.Sprintf("%s:%d", p.HostIP, p.Value)})
		}
		s.table([]string{"Label", "Address"}, rows)
	}
}

func (s *session) describeTasks(a *model.Allocation, short bool) {
	for _, name := range sortedKeys(a.TaskStates) {
		t := a.TaskStates[name]
		s.title("\nTask %q is %q", name, t.State)
		if a.AllocatedResources != nil && a.AllocatedResources.Tasks[name] != nil {
			r := a.AllocatedResources.Tasks[name]
			s.table([]string{"CPU", "Memory"}, [][]string{{fmt.Sprintf("%d MHz", r.Cpu.CpuShares), fmt.Sprintf("%d MiB", r.Memory.MemoryMB)}})
		}
		started, finished := "N/A", "N/A"
		if t.StartedAt != nil {
			started = date(t.StartedAt.UnixNano())
		}
		if t.FinishedAt != nil {
			finished = date(t.FinishedAt.UnixNano())
		}
		s.pairs("Started At", started, "Finished At", finished, "Total Restarts", strconv.FormatUint(t.Restarts, 10), "Failed", strconv.FormatBool(t.Failed))
		if short {
			continue
		}
		s.printf("Recent Events:")
		var rows [][]string
		for i := len(t.Events) - 1; i >= 0; i-- {
			e := t.Events[i]
			rows = append(rows, []string{date(e.Time), e.Type, e.DisplayMessage})
		}
		s.table([]string{"Time", "Type", "Description"}, rows)
	}
}

func (s *session) describePlacement(m *model.AllocMetric) {
	s.title("\nPlacement Metrics")
	s.printf("  Nodes evaluated %d, filtered %d, exhausted %d", m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted)
	for _, line := range metricLines(m) {
		s.printf("  * %s", line)
	}
	var rows [][]string
	for _, n := range m.ScoreMetaData {
		row := []string{s.id(n.NodeID), strconv.FormatFloat(n.NormScore, 'g', 4, 64)}
		detail := ""
		for _, k := range sortedKeys(n.Scores) {
			detail += fmt.Sprintf("%s=%.3g ", k, n.Scores[k])
		}
		rows = append(rows, append(row, detail))
	}
	if len(rows) > 0 {
		s.table([]string{"Node", "Final Score", "Parts"}, rows)
	}
}
