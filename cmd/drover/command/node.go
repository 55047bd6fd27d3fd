// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func nodeStatus() spec {
	return spec{
		usage: "node status [options] [<node>]", synopsis: "Shows one node, or lists all", max: 1, output: true, takes: "nodes",
		setup: func(fs *flag.FlagSet) run {
			list := &nodeList{paging: filterFlags(fs, true)}
			self := fs.Bool("self", false, "Uses the agent's own node.")
			short := fs.Bool("short", false, "Leaves out drivers, events and attributes.")
			stats := fs.Bool("stats", false, "Shows detailed resource usage statistics of the node.")
			fs.BoolVar(&list.allocs, "allocs", false, "In the list: shows the number of running allocations.")
			fs.BoolVar(&list.os, "os", false, "In the list: shows the operating system.")
			fs.BoolVar(&list.quiet, "quiet", false, "In the list: prints only ids.")
			picture := fs.Bool("map", false, "In the list: shows how full each node is, as a picture by node class.")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if *picture && (*self || len(args) > 0) {
					return errors.New("-map shows all nodes; leave the node out")
				}
				if *picture {
					return s.mapNodes(ctx, list)
				}
				if !*self && len(args) == 0 {
					s.maybeUI(*show, "clients")
					return s.listNodes(ctx, list)
				}
				n, err := s.nodeOrSelf(ctx, args, *self)
				if err != nil {
					return err
				}
				if done, err := s.formatted(n); done {
					return err
				}
				s.maybeUI(*show, uiNode(n.ID))
				return s.describeNode(ctx, n, *short, *stats)
			}
		},
	}
}

// nodeList has the rows and flags of a list of nodes.
type nodeList struct {
	*paging
	allocs, os, quiet bool
}

func (s *session) listNodes(ctx context.Context, o *nodeList) error {
	q := o.Query
	if o.os {
		q.Params = url.Values{"os": {"true"}}
	}
	nodes, meta, err := s.client.Nodes(ctx, &q)
	if err != nil {
		return err
	}
	if done, err := s.formatted(nodes); done {
		return err
	}
	if o.quiet {
		for _, n := range nodes {
			s.printf("%s", s.id(n.ID))
		}
		return nil
	}
	header := []string{"ID", "Node Pool", "DC", "Name", "Class"}
	if s.verbose {
		header = append(header, "Address", "Version")
	}
	if o.os {
		header = append(header, "OS")
	}
	header = append(header, "Drain", "Eligibility", "Status")
	var running map[string]int
	if o.allocs {
		header = append(header, "Running Allocs")
		if running, err = s.runningByNode(ctx); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, n := range nodes {
		row := []string{s.id(n.ID), n.NodePool, n.Datacenter, n.Name, n.NodeClass}
		if s.verbose {
			row = append(row, n.Address, n.Version)
		}
		if o.os {
			row = append(row, n.Attributes["os.name"])
		}
		row = append(row, text(n.Drain), n.SchedulingEligibility, n.Status)
		if o.allocs {
			row = append(row, text(running[n.ID]))
		}
		rows = append(rows, row)
	}
	s.tableOr("No nodes registered", header, rows)
	o.more(s, meta)
	return nil
}

// runningByNode counts the running allocs of each node.
func (s *session) runningByNode(ctx context.Context) (map[string]int, error) {
	list, _, err := s.anyNamespace().Allocations(ctx, &client.Query{Filter: `ClientStatus == "running"`})
	out := map[string]int{}
	for _, a := range list {
		out[a.NodeID]++
	}
	return out, err
}

func (s *session) describeNode(ctx context.Context, n *model.Node, short, stats bool) error {
	kv := []string{"ID", n.ID, "Name", n.Name, "Node Pool", n.NodePool, "Class", n.NodeClass, "DC", n.Datacenter,
		"Drain", text(n.DrainStrategy != nil), "Eligibility", n.SchedulingEligibility, "Status", n.Status}
	if d := n.DrainStrategy; d != nil && !d.ForceDeadline.IsZero() {
		kv = append(kv, "Drain Deadline", when(d.ForceDeadline))
	}
	host := s.hostStats(ctx, n)
	if host != nil {
		kv = append(kv, "Uptime", duration(time.Duration(host.Uptime)*time.Second))
	}
	s.pairs(kv...)
	if !short {
		s.describeNodeHealth(n)
	}
	list, _, err := s.client.NodeAllocations(ctx, n.ID, nil)
	if err != nil {
		return err
	}
	s.nodeResources(n, list)
	if !short {
		s.deviceTable(devicesOf(n), s.holders(list))
	}
	s.hostUse(host, stats)
	s.title("\nAllocations")
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{s.id(a.ID), s.id(a.NodeID), a.JobID, a.TaskGroup, a.DesiredStatus, a.ClientStatus, ago(a.CreateTime), ago(a.ModifyTime)})
	}
	s.tableOr("No allocations placed", []string{"ID", "Node ID", "Job ID", "Task Group", "Desired", "Status", "Created", "Modified"}, rows)
	if s.verbose {
		s.title("\nAttributes")
		s.mapPairs(n.Attributes)
		s.title("\nMeta")
		s.mapPairs(n.Meta)
	}
	return nil
}

// describeNodeHealth prints the drivers, volumes and events of a node.
func (s *session) describeNodeHealth(n *model.Node) {
	s.title("\nDrivers")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		rows = append(rows, []string{name, text(d.Detected), text(d.Healthy), d.HealthDescription, when(d.UpdateTime)})
	}
	s.table([]string{"Driver", "Detected", "Healthy", "Message", "Time"}, rows)
	if s.verbose {
		s.nodePlugins(n)
	}
	if len(n.HostVolumes) > 0 {
		s.title("\nHost Volumes")
		rows = nil
		for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
			v := n.HostVolumes[name]
			rows = append(rows, []string{name, text(v.ReadOnly), v.Path, s.id(v.ID)}) // a static volume has no id
		}
		s.table([]string{"Name", "ReadOnly", "Source", "ID"}, rows)
	}
	s.title("\nNode Events")
	rows = nil
	header := []string{"Time", "Subsystem", "Message"}
	if s.verbose {
		header = append(header, "Details")
	}
	for _, e := range slices.Backward(n.Events) {
		row := []string{when(e.Timestamp), e.Subsystem, e.Message}
		if s.verbose {
			var details []string
			for _, k := range slices.Sorted(maps.Keys(e.Details)) {
				details = append(details, k+": "+e.Details[k])
			}
			row = append(row, strings.Join(details, ", "))
		}
		rows = append(rows, row)
	}
	s.table(header, rows)
}

// nodePlugins prints the plugins of a node and their state.
func (s *session) nodePlugins(n *model.Node) {
	s.title("\nPlugins")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(n.Plugins)) {
		p := n.Plugins[name]
		rows = append(rows, []string{name, p.Version, p.State, text(p.Restarts), strings.Join(p.Drivers, ","), strings.Join(p.Devices, ","), strings.Join(p.Collectors, ","), p.Error})
	}
	s.tableOr("No plugins", []string{"Name", "Version", "State", "Restarts", "Drivers", "Devices", "Collectors", "Error"}, rows)
}

// hostStats holds the measured resource usage of a node.
type hostStats struct {
	Memory struct{ Total, Available, Used, Free uint64 }
	CPU    []struct {
		CPU                              string
		User, System, Idle, TotalPercent float64
	}
	DiskStats []struct {
		Device, Mountpoint             string
		Size, Used, Available          uint64
		UsedPercent, InodesUsedPercent float64
	}
	Uptime           uint64 // seconds
	CPUTicksConsumed float64
	DeviceStats      []deviceGroup
}

// hostStats reads the resource usage of a node. It returns nil if it cannot be read.
func (s *session) hostStats(ctx context.Context, n *model.Node) *hostStats {
	if n.Status != model.NodeStatusReady {
		return nil
	}
	out := &hostStats{}
	if err := s.client.NodeStats(ctx, n.ID, out); err != nil {
		fmt.Fprintf(s.Err, "Couldn't retrieve stats: %s\n", client.Text(err))
		return nil
	}
	return out
}

func (s *session) hostUse(h *hostStats, all bool) {
	if h == nil {
		return
	}
	s.title("\nHost Resource Utilization")
	s.table([]string{"CPU", "Memory"}, [][]string{{fmt.Sprintf("%.0f MHz", h.CPUTicksConsumed), humanize.IBytes(h.Memory.Used) + "/" + humanize.IBytes(h.Memory.Total)}})
	s.deviceUse("\nDevice Resource Utilization", h.DeviceStats)
	if !all {
		return
	}
	s.title("\nCPU Stats")
	for _, c := range h.CPU {
		s.pairs("CPU", c.CPU, "User", fmt.Sprintf("%.2f%%", c.User), "System", fmt.Sprintf("%.2f%%", c.System), "Idle", fmt.Sprintf("%.2f%%", c.Idle))
		s.printf("")
	}
	s.title("Memory Stats")
	s.pairs("Total", humanize.IBytes(h.Memory.Total), "Available", humanize.IBytes(h.Memory.Available), "Used", humanize.IBytes(h.Memory.Used), "Free", humanize.IBytes(h.Memory.Free))
	s.title("\nDisk Stats")
	for _, d := range h.DiskStats {
		s.pairs("Device", d.Device, "MountPoint", d.Mountpoint, "Size", humanize.IBytes(d.Size), "Used", humanize.IBytes(d.Used), "Available", humanize.IBytes(d.Available),
			"Used Percent", fmt.Sprintf("%.2f%%", d.UsedPercent), "Inodes Percent", fmt.Sprintf("%.2f%%", d.InodesUsedPercent))
		s.printf("")
	}
	s.deviceValues(h.DeviceStats)
}

func (s *session) nodeResources(n *model.Node, allocs []*client.AllocDetail) {
	if n.NodeResources == nil {
		return
	}
	var used model.ComparableResources
	for _, a := range allocs {
		if a.ClientTerminalStatus() || a.AllocatedResources == nil {
			continue
		}
		c := a.AllocatedResources.Comparable()
		used.CPUShares += c.CPUShares
		used.MemoryMB += c.MemoryMB
		used.DiskMB += c.DiskMB
	}
	r := n.NodeResources
	s.title("\nAllocated Resources")
	s.table([]string{"CPU", "Memory", "Disk"}, [][]string{{
		fmt.Sprintf("%d/%d MHz", used.CPUShares, r.Cpu.CpuShares), fmt.Sprintf("%d/%d MiB", used.MemoryMB, r.Memory.MemoryMB), fmt.Sprintf("%d/%d MiB", used.DiskMB, r.Disk.DiskMB),
	}})
}

func nodeEligibility() spec {
	return spec{
		usage: "node eligibility [options] <node>", synopsis: "Sets whether new allocations may be placed on a node", max: 1, takes: "nodes",
		setup: func(fs *flag.FlagSet) run {
			enable := fs.Bool("enable", false, "Allows new allocations on the node.")
			disable := fs.Bool("disable", false, "Allows no new allocations on the node.")
			self := fs.Bool("self", false, "Uses the agent's own node.")
			return func(ctx context.Context, s *session, args []string) error {
				if *enable == *disable {
					return errors.New("give either -enable or -disable")
				}
				n, err := s.nodeOrSelf(ctx, args, *self)
				if err != nil {
					return err
				}
				if _, err := s.client.SetNodeEligibility(ctx, n.ID, *enable); err != nil {
					return err
				}
				s.printf("Node %q scheduling eligibility set: %s", n.ID, map[bool]string{true: "eligible", false: "ineligible"}[*enable])
				return nil
			}
		},
	}
}
