// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/sdk/errdefs"
)

func serverMembers() spec {
	return spec{
		usage: "server members [options]", synopsis: "Lists the known servers", output: true,
		setup: func(fs *flag.FlagSet) run {
			detailed := fs.Bool("detailed", false, "The same as -verbose.")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, _ []string) error {
				m, err := s.client.Members(ctx)
				if err != nil {
					return err
				}
				if done, err := s.formatted(m); done {
					return err
				}
				s.maybeUI(*show, "servers")
				leader, leaderErr := s.client.Leader(ctx)
				header := []string{"Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"}
				all := s.verbose || *detailed
				if all {
					header = append(header, "Tags")
				}
				var rows [][]string
				for _, x := range m.Members {
					rpc := net.JoinHostPort(string(x.Addr), x.Tags["port"])
					row := []string{x.Name, string(x.Addr), text(x.Port), x.Status, text(leader != "" && rpc == leader), x.Tags["raft_vsn"], x.Tags["build"], x.Tags["dc"], x.Tags["region"]}
					if all {
						row = append(row, tagList(x.Tags))
					}
					rows = append(rows, row)
				}
				s.table(header, rows)
				s.warnOfDoors(ctx)
				if leaderErr != nil {
					return fmt.Errorf("no leader is known: %w", leaderErr)
				}
				return nil
			}
		},
	}
}

// tagList returns the tags of a server in one line, ordered by name.
func tagList(tags map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, name+"="+tags[name])
	}
	return strings.Join(out, ",")
}

func serverJoin() spec {
	return spec{
		usage: "server join [options] <addr> [<addr>...]", synopsis: "Joins the agent's server to a cluster", min: 1, max: -1,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				n, failure, err := s.client.Join(ctx, args)
				if err != nil {
					return err
				}
				if n == 0 && failure != "" {
					return errdefs.Unavailablef("joined no server: %s", failure)
				}
				s.printf("Joined %d servers successfully", n)
				return nil
			}
		},
	}
}

func serverForceLeave() spec {
	return spec{
		usage: "server force-leave [options] <node>", synopsis: "Removes a failed server from the list of members", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			prune := fs.Bool("prune", false, "Removes the server completely, instead of marking it as left.")
			return func(ctx context.Context, s *session, args []string) error {
				members, err := s.client.Members(ctx)
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(members.Members, func(m *api.AgentMember) bool { return m.Name == args[0] || strings.HasPrefix(m.Name, args[0]+".") }) {
					return fmt.Errorf("no server is called %q; list them with: drover server members", args[0])
				}
				return s.client.ForceLeave(ctx, args[0], *prune)
			}
		},
	}
}
