// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func nodeIdentityGet() spec {
	return spec{
		usage: "node identity get [options] <node_id>", synopsis: "Shows the claims in the identity of a node", min: 1, max: 1, output: true, takes: "nodes",
		help: `Servers give each registered node an identity: a signed token with which it returns, beside its secret, and which it renews
  before it ends. How long it is valid is a property of the node's pool (node_identity_ttl).`,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				id, err := s.nodeID(ctx, args[0])
				if err != nil {
					return err
				}
				n, err := s.client.NodeIdentity(ctx, id)
				return s.show(n, err, func() {
					var pairs []string
					for _, name := range slices.Sorted(maps.Keys(n.Claims)) {
						pairs = append(pairs, visible(name), visible(claimText(name, n.Claims[name])))
					}
					s.pairs(pairs...)
				})
			}
		},
	}
}

// claimText is a claim in words; the times of tokens are seconds.
func claimText(name string, v any) string {
	at, isNumber := v.(float64)
	if isNumber && slices.Contains([]string{"exp", "iat", "nbf"}, name) {
		return when(time.Unix(int64(at), 0))
	}
	return fmt.Sprint(v)
}

func nodeIdentityRenew() spec {
	return spec{
		usage: "node identity renew [options] <node_id>", synopsis: "Requests a new identity for a node from the servers", min: 1, max: 1, takes: "nodes",
		help: `Nodes renew their identities by themselves. The command is of use after the keys of the cluster were rotated: the new
  identity is signed with the active key.`,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				id, err := s.nodeID(ctx, args[0])
				if err != nil {
					return err
				}
				if err := s.client.RenewNodeIdentity(ctx, id); err != nil {
					return err
				}
				s.printf("The node has a new identity.")
				return nil
			}
		},
	}
}

func nodeIntroCreate() spec {
	return spec{
		usage: "node intro create [options]", synopsis: "Creates a token that lets a new node join", output: true,
		help: `Servers with client_introduction { enforcement = "strict" } admit a new node only with such a token. Give it to the agent with
  -client-intro-token, or as the file intro_token.jwt in its state directory (DATA_DIR/client). It is needed once: a node that has
  registered returns without it.`,
		setup: func(fs *flag.FlagSet) run {
			name := fs.String("node-name", "", "The name that the node must have; any by default.")
			pool := fs.String("node-pool", "", "The pool that the node must be in; any by default.")
			ttl := fs.String("ttl", "", "How long the token is valid, such as 10m; servers limit it (client_introduction).")
			return func(ctx context.Context, s *session, _ []string) error {
				if *ttl != "" {
					if d, err := time.ParseDuration(*ttl); err != nil || d <= 0 {
						return errdefs.InvalidArgumentf("-ttl %q is not a time such as 10m", *ttl)
					}
				}
				x, err := s.client.IntroduceNode(ctx, *name, *pool, *ttl)
				return s.show(x, err, func() { s.printf("%s", x.JWT) })
			}
		},
	}
}
