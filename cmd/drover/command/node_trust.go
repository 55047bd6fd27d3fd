// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/rpc"
)

func nodeTrust() spec {
	return spec{
		usage: "node trust [options]", synopsis: "Makes a node accept servers that have lost data or belong to another cluster", output: true,
		help: `A node keeps its tasks running, and does not register, when the servers that answer belong to another cluster. It also
  keeps them when its servers have lost data that the node has already seen, for example after an older backup was restored.
  If the right data can be restored, restore it: the node then accepts its servers again without this command. If it cannot,
  this command makes the node accept the servers as they are. Allocations that they do not know are STOPPED.

  Servers cannot reach a node that refuses them: run the command on the node, or with -address of the node's agent.

  With -all, the command asks every registered node, and makes the nodes trust their servers that do not, as is needed
  after "operator snapshot restore". The exit code is 1 if a node could not be reached.`,
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node-id", "", "Node; the agent's own node by default.")
			show := fs.Bool("status", false, "Shows whether the node accepts its servers, and changes nothing.")
			all := fs.Bool("all", false, "All registered nodes.")
			yes := fs.Bool("yes", false, "With -all: does not ask for confirmation.")
			return func(ctx context.Context, s *session, _ []string) error {
				switch {
				case *all && *node != "":
					return errors.New("give either -all or -node-id")
				case *yes && !*all:
					return errors.New("-yes needs -all")
				case *all:
					return s.trustAll(ctx, *show, *yes)
				}
				id, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				if *show {
					c, err := s.client.NodeCluster(ctx, id)
					return s.show(c, err, func() { s.nodeCluster(c) })
				}
				c, err := s.client.TrustCluster(ctx, id)
				return s.show(c, err, func() {
					s.printf("The node will accept the next servers that answer; within seconds it stops allocations that they do not know.")
				})
			}
		},
	}
}

func (s *session) nodeCluster(c *client.NodeCluster) {
	cluster := c.ClusterID
	if cluster == "" {
		cluster = "<none yet>"
	}
	s.pairs("Cluster", cluster, "Highest index seen", text(c.Index), "Servers", c.Standing)
}

// trusting is the result of -all for one node.
type trusting struct {
	ID, Name, Status string
	Cluster          *client.NodeCluster // state before the command; nil if the node could not be asked
	Trusted          bool                // the command made the node trust its servers
	Error            string              `json:",omitempty"`
}

// standing describes whether the node trusts its servers, or why that is unknown.
func (t *trusting) standing() string {
	switch {
	case t.Error != "":
		return t.Error
	case t.Trusted:
		return "trusts them now"
	}
	return t.Cluster.Standing
}

// atOnce is the number of nodes that are asked concurrently.
const atOnce = 16

// eachNode calls do for all nodes, atOnce of them concurrently, and then say for
// each in order.
func eachNode(nodes []*trusting, do func(*trusting) error, say func(*trusting)) {
	for some := range slices.Chunk(nodes, atOnce) {
		var wait sync.WaitGroup
		for _, n := range some {
			wait.Go(func() {
				if err := do(n); err != nil {
					n.Error = client.Text(err)
				}
			})
		}
		wait.Wait()
		for _, n := range some {
			say(n)
		}
	}
}

func (s *session) trustAll(ctx context.Context, show, yes bool) error {
	list, _, err := s.client.Nodes(ctx, nil)
	if err != nil {
		return err
	}
	nodes := make([]*trusting, 0, len(list))
	for _, n := range list {
		nodes = append(nodes, &trusting{ID: n.ID, Name: n.Name, Status: n.Status})
	}
	eachNode(nodes, func(n *trusting) (err error) {
		n.Cluster, err = s.client.NodeCluster(ctx, n.ID)
		return err
	}, func(*trusting) {})
	if !show {
		if sure, err := s.trustDoubting(ctx, nodes, yes); !sure {
			return err
		}
	}
	err = s.show(nodes, nil, func() {
		var rows [][]string
		for _, n := range nodes {
			rows = append(rows, []string{s.id(n.ID), n.Name, n.Status, n.standing()})
		}
		s.tableOr("No nodes registered", []string{"ID", "Name", "Status", "Servers"}, rows)
	})
	failed := 0
	for _, n := range nodes {
		if n.Error != "" {
			failed++
		}
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d nodes could not be reached; run this again when they can, or on their machines", failed, len(nodes))
	}
	return err
}

// trustDoubting makes those nodes trust their servers that do not, and prints a line
// for each. It reports false if the user declines.
func (s *session) trustDoubting(ctx context.Context, nodes []*trusting, yes bool) (bool, error) {
	doubting := slices.DeleteFunc(slices.Clone(nodes), func(n *trusting) bool {
		return n.Error != "" || n.Cluster.Standing == rpc.ClusterBelieved
	})
	if len(doubting) == 0 {
		return true, nil
	}
	sure, err := s.confirm(yes, "%d of %d nodes do not trust these servers. They will, and STOP the allocations that the servers do not know. Go on?", len(doubting), len(nodes))
	if !sure {
		return false, err
	}
	quiet := s.json || s.template != ""
	eachNode(doubting, func(n *trusting) error {
		_, err := s.client.TrustCluster(ctx, n.ID)
		n.Trusted = err == nil
		return err
	}, func(n *trusting) {
		if !quiet {
			s.step("Node %q (%s): %s", s.id(n.ID), n.Name, n.standing())
		}
	})
	return true, nil
}
