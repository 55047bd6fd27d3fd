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
		usage: "node trust [options]", synopsis: "Has a node believe servers that have lost data or are of another cluster", output: true,
		help: `A node keeps its tasks when the servers that answer are of another cluster than its own (it does not register then), or
  have lost what they had told it, as when an older copy of their data was put back. If the right data can be put back, do
  that: the node believes its servers again by itself. If it cannot, this command has the node take these servers for its
  own. Allocations that they do not know are STOPPED.

  A node that refuses its servers cannot be reached over them: run the command on its machine, or with -address of its agent.`,
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node-id", "", "The node; the agent's own by default.")
			show := fs.Bool("status", false, "Shows what the node thinks of its servers and changes nothing.")
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
					s.printf("The node believes the servers that answer next; within seconds it stops what they do not know.")
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
	s.pairs("Cluster", cluster, "Seen up to index", text(c.Index), "Servers", c.Standing)
}
