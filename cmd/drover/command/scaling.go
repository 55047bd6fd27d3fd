// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
)

func scalingList() spec {
	return spec{
		usage: "scaling policy list [options]", synopsis: "Lists scaling policies", output: true,
		setup: func(fs *flag.FlagSet) run {
			kind := fs.String("type", "", "Only policies of this type, such as horizontal.")
			job := fs.String("job", "", "Only policies of this job.")
			return func(ctx context.Context, s *session, _ []string) error {
				q := &client.Query{Params: url.Values{}}
				for name, v := range map[string]string{"type": *kind, "job": *job} {
					if v != "" {
						q.Params.Set(name, v)
					}
				}
				list, _, err := s.client.ScalingPolicies(ctx, q)
				return s.show(list, err, func() {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{s.id(p.ID), text(p.Enabled), p.Type, targetOf(p.Target)})
					}
					s.tableOr("No policies found", []string{"ID", "Enabled", "Type", "Target"}, rows)
				})
			}
		},
	}
}

// targetOf formats the target of a scaling policy, from the namespace down to the
// task.
func targetOf(target map[string]string) string {
	var out []string
	for _, k := range []string{"Namespace", "Job", "Group", "Task"} {
		if v := target[k]; v != "" {
			out = append(out, k+":"+v)
		}
	}
	return strings.Join(out, ",")
}

func scalingInfo() spec {
	return spec{
		usage: "scaling policy info [options] <policy_id>", synopsis: "Shows a scaling policy", min: 1, max: 1, output: true, takes: "scaling_policy",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				id, err := wholeID(ctx, "scaling policy", args[0], func(ctx context.Context, q *client.Query) ([]candidate, error) {
					list, _, err := s.anyNamespace().ScalingPolicies(ctx, q)
					return candidatesOf(list, func(p *api.ScalingPolicyStub) candidate { return candidate{p.ID, targetOf(p.Target)} }), err
				})
				if err != nil {
					return err
				}
				p, _, err := s.client.ScalingPolicy(ctx, id, nil)
				if err != nil {
					return err
				}
				if done, err := s.formatted(p); done {
					return err
				}
				policy, err := json.MarshalIndent(p.Policy, "", "  ")
				if err != nil {
					return fmt.Errorf("the policy cannot be written as JSON: %w", err)
				}
				s.pairs("ID", s.id(p.ID), "Enabled", text(p.Enabled), "Target", targetOf(p.Target), "Min", text(p.Min), "Max", text(p.Max))
				s.title("\nPolicy:")
				s.printf("%s", policy)
				return nil
			}
		},
	}
}
