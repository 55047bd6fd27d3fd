// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strings"
)

func serviceList() spec {
	return spec{
		usage: "service list [options]", synopsis: "Lists the services of the built-in registry", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				list, _, err := s.client.Services(ctx, nil)
				return s.show(list, err, func() {
					header := []string{"Service Name", "Tags"}
					many := s.cfg.Namespace == "*"
					if many {
						header = []string{"Service Name", "Namespace", "Tags"}
					}
					var rows [][]string
					for _, ns := range list {
						for _, svc := range ns.Services {
							row := []string{svc.ServiceName}
							if many {
								row = append(row, ns.Namespace)
							}
							rows = append(rows, append(row, "["+strings.Join(svc.Tags, ",")+"]"))
						}
					}
					s.tableOr("No service registrations found", header, rows)
				})
			}
		},
	}
}

func serviceInfo() spec {
	return spec{
		usage: "service info [options] <service_name>", synopsis: "Lists the instances of a service", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				list, meta, err := s.client.Service(ctx, args[0], &q.Query)
				if err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				if len(list) == 0 {
					return fmt.Errorf("no service registrations found for %q; list services with: drover service list", args[0])
				}
				var rows [][]string
				for i, r := range list {
					address := fmt.Sprintf("%s:%d", r.Address, r.Port)
					if !s.verbose {
						rows = append(rows, []string{r.JobID, address, "[" + strings.Join(r.Tags, ",") + "]", s.id(r.NodeID), s.id(r.AllocID)})
						continue
					}
					if i > 0 {
						s.printf("")
					}
					s.pairs("ID", r.ID, "Service Name", r.ServiceName, "Namespace", r.Namespace, "Job ID", r.JobID, "Alloc ID", r.AllocID,
						"Node ID", r.NodeID, "Datacenter", r.Datacenter, "Address", address, "Tags", "["+strings.Join(r.Tags, ",")+"]")
				}
				if !s.verbose {
					s.table([]string{"Job ID", "Address", "Tags", "Node ID", "Alloc ID"}, rows)
				}
				q.more(s, meta)
				return nil
			}
		},
	}
}

func serviceDelete() spec {
	return spec{
		usage: "service delete [options] <service_name> <service_id>", synopsis: "Removes an instance of a service from the built-in registry", min: 2, max: 2,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.DeleteService(ctx, args[0], args[1]); err != nil {
					return err
				}
				s.printf("Successfully deleted service registration")
				return nil
			}
		},
	}
}
