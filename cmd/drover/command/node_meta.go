// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
)

// nodeID returns the node that -node-id selects; "" selects the agent's own node.
func (s *session) nodeID(ctx context.Context, prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	return s.wholeNodeID(ctx, prefix)
}

func nodeMetaApply() spec {
	return spec{
		usage: "node meta apply [-node-id ...] [-unset ...] [<key>=<value>...]", synopsis: "Changes the metadata of a running node", max: -1,
		help: "These values persist across restarts of the agent and override its configuration.",
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node-id", "", "Node; the agent's own node by default.")
			unset := lists(fs, "unset", "Removes this key. Keys may also be separated by commas.")
			return func(ctx context.Context, s *session, args []string) error {
				meta := map[string]*string{}
				for _, keys := range *unset {
					for key := range strings.SplitSeq(keys, ",") {
						meta[key] = nil
					}
				}
				for _, kv := range args {
					key, value, ok := strings.Cut(kv, "=")
					if !ok || key == "" {
						return fmt.Errorf("%q is not KEY=VALUE", kv)
					}
					meta[key] = &value
				}
				if len(meta) == 0 {
					return errors.New("give KEY=VALUE or -unset KEY")
				}
				id, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				_, err = s.client.ApplyNodeMeta(ctx, id, meta)
				return err
			}
		},
	}
}

func nodeMetaRead() spec {
	return spec{
		usage: "node meta read [-json] [-node-id ...]", synopsis: "Shows the metadata of a node and the source of each value", output: true,
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node-id", "", "Node; the agent's own node by default.")
			return func(ctx context.Context, s *session, _ []string) error {
				id, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				m, err := s.client.NodeMeta(ctx, id)
				return s.show(m, err, func() {
					s.title("All Meta")
					s.metaOr("No metadata", m.Meta)
					s.title("\nDynamic Meta")
					dynamic := map[string]string{}
					for k, v := range m.Dynamic {
						dynamic[k] = "<unset>"
						if v != nil {
							dynamic[k] = *v
						}
					}
					s.metaOr("No metadata", dynamic)
					s.title("\nStatic Meta")
					s.metaOr("No metadata", m.Static)
				})
			}
		},
	}
}

func nodeConfig() spec {
	return spec{
		usage: "node config [options]", synopsis: "Shows or changes the server list of the agent's node",
		setup: func(fs *flag.FlagSet) run {
			show := fs.Bool("servers", false, "Lists the servers.")
			update := fs.Bool("update-servers", false, "Replaces the server list by the arguments, each HOST or HOST:PORT; the default port is 4647.")
			return func(ctx context.Context, s *session, args []string) error {
				switch {
				case *show == *update:
					return errors.New("give either -servers or -update-servers")
				case *update && len(args) == 0:
					return errors.New("give the servers as arguments, HOST:PORT each")
				case *update:
					if err := s.client.SetServers(ctx, args); err != nil {
						return err
					}
					s.printf("Updated server list")
					return nil
				}
				servers, err := s.client.Servers(ctx)
				if err != nil {
					return err
				}
				for _, addr := range servers {
					s.printf("%s", addr)
				}
				return nil
			}
		},
		max: -1,
	}
}
