// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"maps"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/telemetry"
)

// gauges collects gauges with common labels.
type gauges struct {
	labels map[string]string
	out    []telemetry.Sample
}

// add appends a gauge; more are pairs of additional labels.
func (g *gauges) add(name string, value float64, more ...string) {
	labels := g.labels
	if len(more) > 0 {
		labels = maps.Clone(labels)
		for i := 0; i+1 < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
	}
	g.out = append(g.out, telemetry.Sample{Name: name, Value: value, Labels: labels})
}

// ServerGauges returns metrics of the cluster's jobs, derived from the state, with the
// reference's names. Without dispatched, dispatched jobs have no summaries.
func ServerGauges(view *state.View, labels map[string]string, dispatched bool) []telemetry.Sample {
	g := &gauges{labels: labels}
	status := map[string]int{model.JobStatusPending: 0, model.JobStatusRunning: 0, model.JobStatusDead: 0}
	for job := range view.Jobs("") {
		status[job.Status]++
		if job.Dispatched && !dispatched {
			continue
		}
		g.summary(job, view.JobSummary(job.Namespace, job.ID))
	}
	for name, n := range status {
		g.add("nomad.nomad.job_status."+name, float64(n))
	}
	ready := 0
	for n := range view.Nodes() {
		if n.Status == model.NodeStatusReady {
			ready++
		}
	}
	g.add("nomad.nomad.heartbeat.active", float64(ready))
	return g.out
}

func (g *gauges) summary(job *model.Job, s *model.JobSummary) {
	if s == nil {
		return
	}
	names := []string{"job", job.ID, "namespace", job.Namespace}
	if job.ParentID != "" {
		names = append(names, "parent_id", job.ParentID)
	}
	for group, n := range s.Summary {
		of := append([]string{"task_group", group}, names...)
		for name, value := range map[string]int{
			"queued": n.Queued, "complete": n.Complete, "failed": n.Failed, "running": n.Running, "starting": n.Starting, "lost": n.Lost, "unknown": n.Unknown,
		} {
			g.add("nomad.nomad.job_summary."+name, float64(value), of...)
		}
	}
	if c := s.Children; c != nil && (job.IsPeriodic() || job.IsParameterized()) {
		for name, value := range map[string]int64{"pending": c.Pending, "running": c.Running, "dead": c.Dead} {
			g.add("nomad.nomad.job_summary."+name, float64(value), names...)
		}
	}
}

// NodeGauges returns metrics of a node's allocs and resources; none for a nil node.
func NodeGauges(node *model.Node, on []*model.Allocation, labels map[string]string) []telemetry.Sample {
	if node == nil {
		return nil
	}
	g := &gauges{labels: NodeLabels(node, labels)}
	allocs := map[string]int{"blocked": 0, "migrating": 0, "pending": 0, "running": 0, "terminal": 0}
	tasks := map[string]int{model.TaskStatePending: 0, model.TaskStateRunning: 0, model.TaskStateDead: 0}
	var used model.NodeUse
	var most int64 // sum of the memory limits
	live := map[string]bool{}
	for _, a := range on {
		live[a.ID] = !a.ClientTerminalStatus()
	}
	for _, a := range on {
		allocs[allocKind(a, live)]++
		for _, t := range a.TaskStates {
			tasks[t.State]++
		}
		if !a.ClientTerminalStatus() && a.AllocatedResources != nil {
			r := a.AllocatedResources.Comparable()
			used.CPU, used.MemoryMB, used.DiskMB = used.CPU+r.CPUShares, used.MemoryMB+r.MemoryMB, used.DiskMB+r.DiskMB
			most += max(r.MemoryMB, memoryMax(a.AllocatedResources))
		}
	}
	for name, n := range allocs {
		g.add("nomad.client.allocations."+name, float64(n))
	}
	for name, n := range tasks {
		g.add("nomad.client.tasks."+name, float64(n))
	}
	g.add("nomad.client.allocated.cpu", float64(used.CPU))
	g.add("nomad.client.allocated.memory", float64(used.MemoryMB))
	g.add("nomad.client.allocated.max_memory", float64(most))
	g.add("nomad.client.allocated.disk", float64(used.DiskMB))
	if total, kept := node.NodeResources, node.ReservedResources; total != nil && kept != nil {
		g.add("nomad.client.unallocated.cpu", float64(int64(total.Cpu.CpuShares)-int64(kept.Cpu.CpuShares)-used.CPU))
		g.add("nomad.client.unallocated.memory", float64(int64(total.Memory.MemoryMB)-int64(kept.Memory.MemoryMB)-used.MemoryMB))
		g.add("nomad.client.unallocated.disk", float64(int64(total.Disk.DiskMB)-int64(kept.Disk.DiskMB)-used.DiskMB))
		for _, n := range total.Networks { // none of them is allocated
			if n.Device != "" {
				g.add("nomad.client.unallocated.network", float64(n.MBits), "device", n.Device)
			}
		}
	}
	return g.out
}

// allocKind returns the class in which an alloc is counted. live are the node's live
// allocs: a node does not start an alloc before the one that it replaces has ended.
func allocKind(a *model.Allocation, live map[string]bool) string {
	switch {
	case a.ClientTerminalStatus():
		return "terminal"
	case a.ClientStatus == model.AllocClientStatusRunning:
		return "running"
	case live[a.PreviousAllocation]:
		return "blocked"
	}
	return "pending"
}

// memoryMax returns the sum of the memory limits of an alloc's tasks, or of the
// reserved memory for tasks without a limit.
func memoryMax(r *model.AllocatedResources) (mb int64) {
	for _, t := range r.Tasks {
		mb += max(t.Memory.MemoryMB, t.Memory.MemoryMaxMB)
	}
	return mb
}

// NodeLabels returns the labels of a node's metrics, including labels.
func NodeLabels(n *model.Node, labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	class := n.NodeClass
	if class == "" {
		class = "none"
	}
	maps.Copy(out, map[string]string{
		"node_id": n.ID, "datacenter": n.Datacenter, "node_class": class, "node_pool": n.NodePool, "node_status": n.Status,
		"node_scheduling_eligibility": n.SchedulingEligibility,
	})
	return out
}
