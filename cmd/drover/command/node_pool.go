// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// findPool reads a node pool by its name or a unique prefix.
func (s *session) findPool(ctx context.Context, name string) (*model.NodePool, error) {
	list, _, err := s.client.NodePools(ctx, &client.Query{Prefix: name})
	if err != nil {
		return nil, err
	}
	return byName("node pool", name, list, func(p *model.NodePool) string { return p.Name })
}

// byName returns the object with the name, or the only one whose name has the
// prefix.
func byName[T any](what, name string, list []T, nameOf func(T) string) (T, error) {
	var none T
	var found []T
	for _, e := range list {
		switch {
		case nameOf(e) == name:
			return e, nil
		case strings.HasPrefix(nameOf(e), name):
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("no %s with prefix or name %q found; list them with: drover %s", what, name, listsOf[what])
	case 1:
		return found[0], nil
	}
	return none, ambiguous(what, name, candidatesOf(found, func(e T) candidate { return candidate{id: nameOf(e)} }))
}

func nodePoolList() spec {
	return spec{
		usage: "node pool list [options]", synopsis: "Lists node pools", output: true,
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, _ []string) error {
				list, meta, err := s.client.NodePools(ctx, &q.Query)
				return s.show(list, err, func() {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.Name, p.Description})
					}
					s.tableOr("No node pools", []string{"Name", "Description"}, rows)
					q.more(s, meta)
				})
			}
		},
	}
}

func nodePoolInfo() spec {
	return spec{
		usage: "node pool info [options] <node-pool>", synopsis: "Shows a node pool", min: 1, max: 1, output: true, takes: "node_pools",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				p, err := s.findPool(ctx, args[0])
				return s.show(p, err, func() {
					s.pairs("Name", p.Name, "Description", p.Description)
					s.title("\nMetadata")
					s.metaOr("No metadata", p.Meta)
					s.title("\nScheduler Configuration")
					if c := p.SchedulerConfiguration; c == nil {
						s.printf("No scheduler configuration")
					} else {
						s.describeScheduling(c)
					}
				})
			}
		},
	}
}

// describeScheduling prints the scheduler configuration of a node pool or a namespace.
func (s *session) describeScheduling(c *model.NodePoolSchedulerConfiguration) {
	kv := []string{"Scheduler Algorithm", c.SchedulerAlgorithm, "Memory Oversubscription Enabled", textOf(c.MemoryOversubscriptionEnabled)}
	if p := c.PreemptionConfig; p != nil {
		kv = append(kv, "Preemption System Scheduler", textOf(p.SystemSchedulerEnabled), "Preemption Service Scheduler", textOf(p.ServiceSchedulerEnabled),
			"Preemption Batch Scheduler", textOf(p.BatchSchedulerEnabled), "Preemption SysBatch Scheduler", textOf(p.SysBatchSchedulerEnabled))
	}
	if q := c.Queue; q != nil {
		kv = append(kv, "Queue Weight", text(max(q.Weight, 1)), "Queue Ordered", textOf(q.Ordered))
		if q.MaxDepth > 0 {
			kv = append(kv, "Queue Max Depth", text(q.MaxDepth))
		}
	}
	s.pairs(kv...)
}

// textOf returns a value as text, "" if it is unset.
func textOf(value *bool) string {
	if value == nil {
		return ""
	}
	return text(*value)
}

// metaOr prints metadata, or the sentence none if there is no metadata.
func (s *session) metaOr(none string, meta map[string]string) {
	if len(meta) == 0 {
		s.printf("%s", none)
		return
	}
	s.mapPairs(meta)
}

func nodePoolNodes() spec {
	return spec{
		usage: "node pool nodes [options] <node-pool>", synopsis: "Lists the nodes of a pool", min: 1, max: 1, output: true, takes: "node_pools",
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				p, err := s.findPool(ctx, args[0])
				if err != nil {
					return err
				}
				list, meta, err := s.client.NodePoolNodes(ctx, p.Name, &q.Query)
				return s.show(list, err, func() {
					var rows [][]string
					for _, n := range list {
						rows = append(rows, []string{s.id(n.ID), n.Datacenter, n.Name, n.NodeClass, text(n.Drain), n.SchedulingEligibility, n.Status})
					}
					s.tableOr("No nodes", []string{"ID", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}, rows)
					q.more(s, meta)
				})
			}
		},
	}
}

func nodePoolJobs() spec {
	return spec{
		usage: "node pool jobs [options] <node-pool>", synopsis: "Lists the jobs of a pool", min: 1, max: 1, output: true, takes: "node_pools",
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				p, err := s.findPool(ctx, args[0])
				if err != nil {
					return err
				}
				list, meta, err := s.client.NodePoolJobs(ctx, p.Name, &q.Query)
				if err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				if len(list) == 0 {
					s.printf("No jobs")
					return nil
				}
				s.jobTable(list)
				q.more(s, meta)
				return nil
			}
		},
	}
}

func nodePoolDelete() spec {
	return spec{
		usage: "node pool delete [options] <node-pool>", synopsis: "Deletes a node pool that has no nodes and no jobs", min: 1, max: 1, takes: "node_pools",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.DeleteNodePool(ctx, args[0]); err != nil {
					return err
				}
				s.printf("Successfully deleted node pool %q!", args[0])
				return nil
			}
		},
	}
}

func nodePoolApply() spec {
	return spec{
		usage: "node pool apply [options] <input>", synopsis: "Creates or updates the node pools that a file describes", min: 1, max: 1, takes: takesFiles,
		help: "The input is a file of node_pool blocks, or - for standard input. For an example\nsee: drover node pool init",
		setup: func(fs *flag.FlagSet) run {
			asJSON := fs.Bool("json", false, "The input is JSON: one node pool in the form that the API accepts.")
			return func(ctx context.Context, s *session, args []string) error {
				src, err := readFile(args[0], s.In)
				if err != nil {
					return err
				}
				var pools []*model.NodePool
				if *asJSON {
					pools = []*model.NodePool{{}}
					if err := json.Unmarshal(src, pools[0]); err != nil {
						return fmt.Errorf("%s is not a node pool in JSON: %w", args[0], model.WrongType(err, src, pools[0], ""))
					}
				} else if pools, err = jobspec.ParseNodePools(src, args[0]); err != nil {
					return err
				}
				for _, p := range pools {
					if err := s.client.ApplyNodePool(ctx, p); err != nil {
						return err
					}
					s.printf("Successfully applied node pool %q!", p.Name)
				}
				return nil
			}
		},
	}
}

// examplePool is what "node pool init" writes.
const examplePool = `node_pool "example" {

  description = "Example node pool"

  # Metadata for people and programs outside the cluster; the scheduler ignores it.
  meta {
    environment = "prod"
    owner       = "sre"
  }

  # Scheduler settings of this pool; they override the cluster's.
  # scheduler_config {
  #
  #   # "binpack" fills nodes one after another, "spread" fills them evenly.
  #   scheduler_algorithm = "spread"
  #
  #   # Whether tasks may use more memory than they reserve, up to memory_max.
  #   memory_oversubscription_enabled = true
  # }
}
`

func nodePoolInit() spec {
	return exampleOf("node pool init", "node pool", "pool.nomad", examplePool, func() (any, error) {
		pools, err := jobspec.ParseNodePools([]byte(examplePool), "pool.nomad.hcl")
		if err != nil {
			return nil, err
		}
		return pools[0], nil
	})
}

// exampleOf defines a command that writes an example to name.hcl, or the result of
// inJSON to name.json.
func exampleOf(command, what, name, hcl string, inJSON func() (any, error)) spec {
	return spec{
		usage: command + " [options] [<filename>]", synopsis: "Writes an example specification of a " + what, max: 1, offline: true,
		setup: func(fs *flag.FlagSet) run {
			out := fs.String("out", "hcl", "Format of the example: hcl or json.")
			quiet := fs.Bool("quiet", false, "Prints nothing.")
			return func(_ context.Context, s *session, args []string) error {
				file, content := name+"."+*out, hcl
				switch *out {
				case "hcl":
				case "json":
					v, err := inJSON()
					if err != nil {
						return err
					}
					b, err := json.MarshalIndent(v, "", "    ")
					if err != nil {
						return fmt.Errorf("the example cannot be written as JSON: %w", err)
					}
					content = string(b) + "\n"
				default:
					return fmt.Errorf("-out %q: use hcl or json", *out)
				}
				if len(args) == 1 {
					file = args[0]
				}
				if err := writeNew(file, content); err != nil {
					return err
				}
				if !*quiet {
					s.printf("Example %s specification written to %s", what, file)
				}
				return nil
			}
		},
	}
}

// writeNew writes a file. It fails if the file exists.
func writeNew(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists; remove it or name another file", name)
	}
	if err == nil {
		_, err = f.WriteString(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write the example: %w", err)
	}
	return nil
}
