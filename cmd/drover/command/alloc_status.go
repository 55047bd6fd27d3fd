// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func allocStatus() spec {
	return spec{
		usage: "alloc status [options] <allocation>", synopsis: "Shows an allocation, its tasks and their recent events", max: 1, output: true, takes: "allocs",
		help: "With -json or -t and no argument, prints all allocations.",
		setup: func(fs *flag.FlagSet) run {
			short := fs.Bool("short", false, "Shows only one line per task.")
			stats := fs.Bool("stats", false, "Shows detailed resource usage statistics of the tasks.")
			show := uiFlag(fs)
			one := ofAlloc(nil, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				a.TasksNow = s.tasksNow(ctx, a.Allocation)
				if done, err := s.formatted(a); done {
					return err
				}
				s.maybeUI(*show, uiAlloc(a.ID))
				s.describeAlloc(a.Allocation)
				if *short {
					s.taskTable(a.Allocation)
					return nil
				}
				s.checkTable(ctx, a.Allocation)
				s.describeTasks(a, s.measured(ctx, a.Allocation), s.nodeDevices(ctx, a.Allocation), *stats)
				if (s.verbose || a.TaskStates == nil) && a.Metrics != nil {
					s.describePlacement(a.Metrics)
				}
				return nil
			})
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 1 {
					return one(ctx, s, args)
				}
				if !s.json && s.template == "" {
					return errors.New("an allocation id is required; list the allocations of a job with: drover job allocs <job>")
				}
				list, _, err := s.client.Allocations(ctx, nil)
				if err != nil {
					return err
				}
				_, err = s.formatted(list)
				return err
			}
		},
	}
}

// usage is the measured resource usage of a task or an alloc.
type usage struct {
	MemoryStats struct {
		RSS, Cache, Swap, Usage, MaxUsage, KernelUsage, KernelMaxUsage, MappedFile uint64
		Measured                                                                   []string
	}
	CpuStats struct {
		SystemMode, UserMode, TotalTicks, Percent float64
		ThrottledPeriods, ThrottledTime           uint64
		Measured                                  []string
	}
	DeviceStats []deviceGroup
	Processes   uint64
	IOStats     *struct {
		ReadBytes, WrittenBytes, Reads, Writes uint64
		Measured                               []string
	}
}

// memory returns the memory that the task uses: the usage that the driver reports,
// or else its resident set.
func (u *usage) memory() uint64 {
	if u.MemoryStats.Usage > 0 {
		return u.MemoryStats.Usage
	}
	return u.MemoryStats.RSS
}

// measured reads the resource usage of each task. It returns nil if it cannot be
// read.
func (s *session) measured(ctx context.Context, a *model.Allocation) map[string]*usage {
	if a.ClientStatus != model.AllocClientStatusRunning {
		return nil
	}
	var out struct {
		Tasks map[string]*struct{ ResourceUsage *usage }
	}
	if err := s.client.AllocationStats(ctx, a.ID, &out); err != nil {
		s.printf("Couldn't retrieve stats: %s", client.Text(err))
		return nil
	}
	tasks := map[string]*usage{}
	for name, t := range out.Tasks {
		if t != nil && t.ResourceUsage != nil {
			tasks[name] = t.ResourceUsage
		}
	}
	return tasks
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
	for _, link := range [][2]string{{"Replacement Alloc ID", a.NextAllocation}, {"Previous Alloc ID", a.PreviousAllocation}, {"Reschedule Eval ID", a.FollowupEvalID},
		{"Preempted By Alloc ID", a.PreemptedByAllocation}} {
		if link[1] != "" {
			kv = append(kv, link[0], s.id(link[1]))
		}
	}
	if len(a.PreemptedAllocations) > 0 {
		var ids []string
		for _, id := range a.PreemptedAllocations {
			ids = append(ids, s.id(id))
		}
		kv = append(kv, "Preempted Alloc IDs", strings.Join(ids, ", "))
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

// taskTable prints a line for each task.
func (s *session) taskTable(a *model.Allocation) {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		t := a.TaskStates[name]
		last := ""
		if n := len(t.Events); n > 0 {
			last = t.Events[n-1].Type + ": " + described(t.Events[n-1])
		}
		rows = append(rows, []string{name, t.State, text(t.Failed), text(t.Restarts), last})
	}
	s.title("\nTasks")
	s.tableOr("No task has started", []string{"Name", "State", "Failed", "Restarts", "Last Event"}, rows)
}

func (s *session) describeTasks(a *client.AllocDetail, uses map[string]*usage, devices []*model.NodeDeviceResource, stats bool) {
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		t := a.TaskStates[name]
		s.title("\nTask %q is %q", name, t.State)
		if t.Paused != "" {
			s.printf("Schedule: it %s; drover alloc pause -status tells more", strings.Replace(pauseText(t.Paused), "paused", "is paused", 1))
		}
		s.describeNow(a.TasksNow[name])
		s.describeUse(a.Allocation, name, uses[name], devices, stats)
		s.taskVolumes(a.Allocation, name)
		started, finished := "N/A", "N/A"
		if t.StartedAt != nil {
			started = when(*t.StartedAt)
		}
		if t.FinishedAt != nil {
			finished = when(*t.FinishedAt)
		}
		s.printf("Task Events:")
		s.pairs("Started At", started, "Finished At", finished, "Total Restarts", text(t.Restarts), "Failed", text(t.Failed))
		s.printf("\nRecent Events:")
		var rows [][]string
		for _, e := range slices.Backward(t.Events) {
			rows = append(rows, []string{date(e.Time), e.Type, described(e)})
		}
		s.table([]string{"Time", "Type", "Description"}, rows)
	}
}

// described returns the text of an event with the reason, details and retry hint of its
// error.
func described(e *model.TaskEvent) string {
	if more := e.Explanation(); more != "" {
		return e.DisplayMessage + " (" + more + ")"
	}
	return e.DisplayMessage
}

// describeUse prints the resources of a task and how much of them it uses.
func (s *session) describeUse(a *model.Allocation, task string, u *usage, devices []*model.NodeDeviceResource, stats bool) {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[task] == nil {
		return
	}
	r := a.AllocatedResources.Tasks[task]
	cpu, memory := fmt.Sprintf("%d MHz", r.Cpu.CpuShares), fmt.Sprintf("%d MiB", r.Memory.MemoryMB)
	if u != nil {
		cpu = fmt.Sprintf("%.0f/%s", u.CpuStats.TotalTicks, cpu)
		memory = humanize.IBytes(u.memory()) + "/" + memory
	}
	s.printf("Task Resources:")
	row := [][]string{{cpu, memory, fmt.Sprintf("%d MiB", a.AllocatedResources.Shared.DiskMB)}}
	s.table([]string{"CPU", "Memory", "Disk"}, row)
	s.printf("")
	s.taskDevices(r.Devices, devices)
	if u != nil && len(u.DeviceStats) > 0 {
		s.deviceUse("Device Stats", u.DeviceStats)
		s.printf("")
	}
	if u == nil || !stats {
		return
	}
	m, c := u.MemoryStats, u.CpuStats
	s.printf("Memory Stats")
	s.table([]string{"Cache", "Kernel Max Usage", "Kernel Usage", "Max Usage", "RSS", "Swap", "Usage"}, [][]string{{humanize.IBytes(m.Cache), humanize.IBytes(m.KernelMaxUsage),
		humanize.IBytes(m.KernelUsage), humanize.IBytes(m.MaxUsage), humanize.IBytes(m.RSS), humanize.IBytes(m.Swap), humanize.IBytes(m.Usage)}})
	s.printf("CPU Stats")
	s.table([]string{"Percent", "System Mode", "Throttled Periods", "Throttled Time", "User Mode"}, [][]string{{fmt.Sprintf("%.2f%%", c.Percent),
		fmt.Sprintf("%.2f%%", c.SystemMode), text(c.ThrottledPeriods), text(c.ThrottledTime), fmt.Sprintf("%.2f%%", c.UserMode)}})
	if u.Processes > 0 {
		s.printf("Processes: %d", u.Processes)
	}
	if io := u.IOStats; io != nil {
		s.printf("IO Stats")
		row := []string{humanize.IBytes(io.ReadBytes), humanize.IBytes(io.WrittenBytes), "-", "-"}
		if slices.Contains(io.Measured, "Reads") {
			row[2], row[3] = text(io.Reads), text(io.Writes)
		}
		s.table([]string{"Read", "Written", "Reads", "Writes"}, [][]string{row})
	}
	s.printf("")
	s.deviceValues(u.DeviceStats)
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
		for _, k := range slices.Sorted(maps.Keys(n.Scores)) {
			detail += fmt.Sprintf("%s=%.3g ", k, n.Scores[k])
		}
		rows = append(rows, append(row, detail))
	}
	if len(rows) > 0 {
		s.table([]string{"Node", "Final Score", "Parts"}, rows)
	}
}
