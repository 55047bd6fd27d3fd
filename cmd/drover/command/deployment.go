// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func (s *session) findDeployment(ctx context.Context, prefix string) (*model.Deployment, error) {
	id, err := wholeID(ctx, "deployment", prefix, func(ctx context.Context, q *client.Query) ([]string, error) {
		list, _, err := s.anyNamespace().Deployments(ctx, q)
		return idsOf(list, func(d *model.Deployment) string { return d.ID }), err
	})
	if err != nil {
		return nil, err
	}
	d, _, err := s.client.Deployment(ctx, id, nil)
	return d, err
}

func (s *session) deploymentTable(list []*model.Deployment) {
	if len(list) == 0 {
		s.printf("No deployments found")
		return
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{s.id(d.ID), d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription})
	}
	s.table([]string{"ID", "Job ID", "Job Version", "Status", "Description"}, rows)
}

func (s *session) describeDeployment(d *model.Deployment) {
	s.pairs("ID", s.id(d.ID), "Job ID", d.JobID, "Job Version", strconv.FormatUint(d.JobVersion, 10), "Status", d.Status, "Description", d.StatusDescription)
	s.title("\nDeployed")
	var rows [][]string
	for _, name := range sortedKeys(d.TaskGroups) {
		g := d.TaskGroups[name]
		by := "N/A"
		if !g.RequireProgressBy.IsZero() {
			by = g.RequireProgressBy.Format(time.RFC3339)
		}
		rows = append(rows, []string{name, strconv.FormatBool(g.AutoRevert), strconv.FormatBool(g.Promoted), strconv.Itoa(g.DesiredTotal), strconv.Itoa(g.DesiredCanaries),
			strconv.Itoa(g.PlacedAllocs), strconv.Itoa(g.HealthyAllocs), strconv.Itoa(g.UnhealthyAllocs), by})
	}
	s.table([]string{"Task Group", "Auto Revert", "Promoted", "Desired", "Canaries", "Placed", "Healthy", "Unhealthy", "Progress Deadline"}, rows)
}

func deploymentList() spec {
	return spec{
		usage: "deployment list [options]", synopsis: "Lists deployments", output: true,
		setup: func(fs *flag.FlagSet) run {
			filter := fs.String("filter", "", "Filters by an expression.")
			return func(ctx context.Context, s *session, _ []string) error {
				list, _, err := s.client.Deployments(ctx, &client.Query{Filter: *filter})
				if err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				s.deploymentTable(list)
				return nil
			}
		},
	}
}

func deploymentStatus() spec {
	return spec{
		usage: "deployment status [options] [<deployment>]", synopsis: "Shows a deployment, or lists all", min: 0, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			monitor := fs.Bool("monitor", false, "Follows the deployment to its end.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					list, _, err := s.client.Deployments(ctx, nil)
					if err != nil {
						return err
					}
					s.deploymentTable(list)
					return nil
				}
				d, err := s.findDeployment(ctx, args[0])
				if err != nil {
					return err
				}
				if *monitor {
					return s.watchDeployment(ctx, d.ID)
				}
				if done, err := s.formatted(d); done {
					return err
				}
				s.describeDeployment(d)
				return nil
			}
		},
	}
}

// deploymentVerb makes the commands fail, pause and resume.
func deploymentVerb(verb string) func() spec {
	synopsis := map[string]string{"fail": "Ends a deployment as failed", "pause": "Pauses a deployment", "resume": "Continues a paused deployment"}[verb]
	return func() spec {
		return spec{
			usage: "deployment " + verb + " [options] <deployment>", synopsis: synopsis, min: 1, max: 1,
			setup: func(fs *flag.FlagSet) run {
				detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
				return func(ctx context.Context, s *session, args []string) error {
					d, err := s.findDeployment(ctx, args[0])
					if err != nil {
						return err
					}
					var res *api.DeploymentUpdateResponse
					if verb == "fail" {
						res, err = s.client.FailDeployment(ctx, d.ID)
					} else {
						res, err = s.client.PauseDeployment(ctx, d.ID, verb == "pause")
					}
					if err != nil {
						return err
					}
					s.printf("Deployment %q: %s done", s.id(d.ID), verb)
					if res.RevertedJobVersion != nil {
						s.printf("The job was reverted to version %d", *res.RevertedJobVersion)
					}
					if verb != "resume" {
						return nil
					}
					return s.follow(ctx, res.EvalID, *detach)
				}
			},
		}
	}
}

func deploymentPromote() spec {
	return spec{
		usage: "deployment promote [options] <deployment>", synopsis: "Promotes canaries: the rest of the roll-out goes on", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			var groups stringList
			fs.Var(&groups, "group", "Only this group. May be given several times.")
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			return func(ctx context.Context, s *session, args []string) error {
				d, err := s.findDeployment(ctx, args[0])
				if err != nil {
					return err
				}
				res, err := s.client.PromoteDeployment(ctx, d.ID, groups)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}
