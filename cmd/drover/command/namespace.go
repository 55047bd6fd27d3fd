// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// findNamespace reads a namespace by its name or a unique prefix.
func (s *session) findNamespace(ctx context.Context, name string) (*model.Namespace, error) {
	list, _, err := s.client.Namespaces(ctx, &client.Query{Prefix: name})
	if err != nil {
		return nil, err
	}
	return byName("namespace", name, list, func(n *model.Namespace) string { return n.Name })
}

func namespaceList() spec {
	return spec{
		usage: "namespace list [options]", synopsis: "Lists namespaces", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				list, _, err := s.client.Namespaces(ctx, nil)
				return s.show(list, err, func() {
					var rows [][]string
					for _, n := range list {
						rows = append(rows, []string{n.Name, n.Description})
					}
					s.tableOr("No namespaces found", []string{"Name", "Description"}, rows)
				})
			}
		},
	}
}

func namespaceStatus() spec {
	return spec{
		usage: "namespace status [options] <namespace>", synopsis: "Shows a namespace", min: 1, max: 1, output: true, takes: "namespaces",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				n, err := s.findNamespace(ctx, args[0])
				return s.show(n, err, func() {
					s.describeNamespace(n)
				})
			}
		},
	}
}

func (s *session) describeNamespace(n *model.Namespace) {
	kv := []string{"Name", n.Name, "Description", n.Description, "Quota", n.Quota}
	if c := n.Capabilities; c != nil {
		kv = append(kv, "EnabledDrivers", strings.Join(c.EnabledTaskDrivers, ","), "DisabledDrivers", strings.Join(c.DisabledTaskDrivers, ","),
			"EnabledNetworkModes", strings.Join(c.EnabledNetworkModes, ","), "DisabledNetworkModes", strings.Join(c.DisabledNetworkModes, ","))
	}
	s.pairs(kv...)
	if len(n.Meta) > 0 {
		s.title("\nMetadata")
		s.mapPairs(n.Meta)
	}
	if p := n.NodePoolConfiguration; p != nil {
		s.title("\nNode Pool Configuration")
		s.pairs("Default", p.Default, "Allowed", strings.Join(p.Allowed, ","), "Denied", strings.Join(p.Denied, ","))
	}
	if c := n.SchedulerConfiguration; c != nil {
		s.title("\nScheduler Configuration")
		s.describeScheduling((*model.NodePoolSchedulerConfiguration)(c))
	}
}

func namespaceInspect() spec {
	return spec{
		usage: "namespace inspect [options] <namespace>", synopsis: "Prints a namespace as JSON", min: 1, max: 1, template: true, takes: "namespaces",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				n, err := s.findNamespace(ctx, args[0])
				if err != nil {
					return err
				}
				if done, err := s.formatted(n); done {
					return err
				}
				return s.printJSON(n)
			}
		},
	}
}

func namespaceDelete() spec {
	return spec{
		usage: "namespace delete [options] <namespace>", synopsis: "Deletes a namespace that has no jobs", min: 1, max: 1, takes: "namespaces",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.DeleteNamespace(ctx, args[0]); err != nil {
					return err
				}
				s.printf("Successfully deleted namespace %q!", args[0])
				return nil
			}
		},
	}
}

func namespaceApply() spec {
	return spec{
		usage: "namespace apply [options] <input>", synopsis: "Creates or changes a namespace", min: 1, max: 1, takes: "namespaces",
		help: "The input is the name of the namespace, a file that describes it, or - for\nstandard input. With a name, only the fields that are set by flags change.",
		setup: func(fs *flag.FlagSet) run {
			description := fs.String("description", "", "Description of the namespace.")
			quota := fs.String("quota", "", "Quota of the namespace.")
			asJSON := fs.Bool("json", false, "The file is JSON in the form that the API accepts.")
			return func(ctx context.Context, s *session, args []string) error {
				n, err := s.namespaceOf(ctx, args[0], *asJSON)
				if err != nil {
					return err
				}
				fs.Visit(func(f *flag.Flag) {
					switch f.Name {
					case "description":
						n.Description = *description
					case "quota":
						n.Quota = *quota
					}
				})
				if err := s.client.ApplyNamespace(ctx, n); err != nil {
					return err
				}
				s.printf("Successfully applied namespace %q!", n.Name)
				return nil
			}
		},
	}
}

// namespaceOf reads a namespace from a file, or from the cluster if input is the
// name of a namespace.
func (s *session) namespaceOf(ctx context.Context, input string, asJSON bool) (*model.Namespace, error) {
	if _, err := os.Stat(input); err != nil && input != "-" && !asJSON {
		n, _, err := s.client.NamespaceByName(ctx, input, nil)
		if errdefs.IsNotFound(err) {
			return &model.Namespace{Name: input}, nil
		}
		return n, err
	}
	src, err := readFile(input, s.In)
	if err != nil {
		return nil, err
	}
	if !asJSON {
		return jobspec.ParseNamespace(src, input)
	}
	n := &model.Namespace{}
	if err := json.Unmarshal(src, n); err != nil {
		return nil, fmt.Errorf("%s is not a namespace in JSON: %w", input, model.WrongType(err, src, n, ""))
	}
	return n, nil
}
