// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func (s *session) findNode(ctx context.Context, prefix string) (*model.Node, error) {
	id, err := wholeID(ctx, "node", prefix, func(ctx context.Context, q *client.Query) ([]string, error) {
		list, _, err := s.client.Nodes(ctx, q)
		return idsOf(list, func(n *api.NodeListStub) string { return n.ID }), err
	})
	if err != nil {
		return nil, err
	}
	n, _, err := s.client.Node(ctx, id, nil)
	return n, err
}

// ownNode is the id of the agent's own node.
func (s *session) ownNode(ctx context.Context) (string, error) {
	self, err := s.client.AgentSelf(ctx)
	if err != nil {
		return "", err
	}
	id := self.Stats["client"]["node_id"]
	if id == "" {
		return "", errors.New("the agent runs no node; name a node")
	}
	return id, nil
}

func nodeStatus() spec {
	return spec{
		usage: "node status [options] [<node>]", synopsis: "Lists nodes, or shows one", min: 0, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			self := fs.Bool("self", false, "The agent's own node.")
			short := fs.Bool("short", false, "Without drivers, events and attributes.")
			allocs := fs.Bool("allocs", false, "In the list: counts running allocations.")
			_ = fs.Bool("stats", false, "Kept for scripts.")
			filter := fs.String("filter", "", "Filters the list by an expression.")
			return func(ctx context.Context, s *session, args []string) error {
				var id string
				var err error
				switch {
				case *self:
					if id, err = s.ownNode(ctx); err != nil {
						return err
					}
				case len(args) == 1:
					id = args[0]
				default:
					return s.listNodes(ctx, *filter, *allocs)
				}
				n, err := s.findNode(ctx, id)
				if err != nil {
					return err
				}
				if done, err := s.formatted(n); done {
					return err
				}
				return s.describeNode(ctx, n, *short)
			}
		},
	}
}

func (s *session) listNodes(ctx context.Context, filter string, withAllocs bool) error {
	nodes, _, err := s.client.Nodes(ctx, &client.Query{Filter: filter})
	if err != nil {
		return err
	}
	if done, err := s.formatted(nodes); done {
		return err
	}
	if len(nodes) == 0 {
		s.printf("No nodes registered")
		return nil
	}
	header := []string{"ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}
	if withAllocs {
		header = append(header, "Running Allocs")
	}
	var rows [][]string
	for _, n := range nodes {
		row := []string{s.id(n.ID), n.NodePool, n.Datacenter, n.Name, n.NodeClass, strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status}
		if withAllocs {
			list, _, err := s.client.NodeAllocations(ctx, n.ID, nil)
			if err != nil {
				return err
			}
			running := 0
			for _, a := range list {
				if a.ClientStatus == model.AllocClientStatusRunning {
					running++
				}
			}
			row = append(row, strconv.Itoa(running))
		}
		rows = append(rows, row)
	}
	s.table(header, rows)
	return nil
}

func (s *session) describeNode(ctx context.Context, n *model.Node, short bool) error {
	s.pairs("ID", n.ID, "Name", n.Name, "Node Pool", n.NodePool, "Class", n.NodeClass, "DC", n.Datacenter,
		"Drain", strconv.FormatBool(n.DrainStrategy != nil), "Eligibility", n.SchedulingEligibility, "Status", n.Status)
	if !short {
		s.title("\nDrivers")
		var rows [][]string
		for _, name := range sortedKeys(n.Drivers) {
			d := n.Drivers[name]
			rows = append(rows, []string{name, strconv.FormatBool(d.Detected), strconv.FormatBool(d.Healthy), d.HealthDescription})
		}
		s.table([]string{"Driver", "Detected", "Healthy", "Message"}, rows)
		s.title("\nNode Events")
		rows = nil
		for i := len(n.Events) - 1; i >= 0; i-- {
			e := n.Events[i]
			rows = append(rows, []string{date(e.Timestamp.UnixNano()), e.Subsystem, e.Message})
		}
		s.table([]string{"Time", "Subsystem", "Message"}, rows)
	}
	list, _, err := s.client.NodeAllocations(ctx, n.ID, nil)
	if err != nil {
		return err
	}
	s.nodeResources(n, list)
	s.title("\nAllocations")
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{s.id(a.ID), a.JobID, a.TaskGroup, a.DesiredStatus, a.ClientStatus, ago(a.CreateTime), ago(a.ModifyTime)})
	}
	s.table([]string{"ID", "Job ID", "Task Group", "Desired", "Status", "Created", "Modified"}, rows)
	if s.verbose {
		s.title("\nAttributes")
		var kv []string
		for _, k := range sortedKeys(n.Attributes) {
			kv = append(kv, k, n.Attributes[k])
		}
		s.pairs(kv...)
	}
	return nil
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
		usage: "node eligibility [options] <node>", synopsis: "Says whether new work may be placed on a node", min: 0, max: 1,
		setup: func(fs *flag.FlagSet) run {
			enable := fs.Bool("enable", false, "New work may be placed.")
			disable := fs.Bool("disable", false, "No new work is placed.")
			self := fs.Bool("self", false, "The agent's own node.")
			return func(ctx context.Context, s *session, args []string) error {
				if *enable == *disable {
					return errors.New("give either -enable or -disable")
				}
				if *self == (len(args) == 1) {
					return errors.New("give either a node or -self")
				}
				id := ""
				if *self {
					var err error
					if id, err = s.ownNode(ctx); err != nil {
						return err
					}
				} else {
					id = args[0]
				}
				n, err := s.findNode(ctx, id)
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
