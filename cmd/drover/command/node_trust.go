// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/core/api/client"
)

func nodeTrust() spec {
	return spec{
		usage: "node trust [options]", synopsis: "Makes a node accept servers that have lost data or belong to another cluster", output: true,
		help: `A node keeps its tasks running, and does not register, when the servers that answer belong to another cluster. It also
  keeps them when its servers have lost data that the node has already seen, for example after an older backup was restored.
  If the right data can be restored, restore it: the node then accepts its servers again without this command. If it cannot,
  this command makes the node accept the servers as they are. Allocations that they do not know are STOPPED.

  Servers cannot reach a node that refuses them: run the command on the node, or with -address of the node's agent.`,
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node-id", "", "Node; the agent's own node by default.")
			show := fs.Bool("status", false, "Shows whether the node accepts its servers, and changes nothing.")
			return func(ctx context.Context, s *session, _ []string) error {
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
