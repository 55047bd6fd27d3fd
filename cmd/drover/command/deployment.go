// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

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

// everDeployments prints a list with history.
func (s *session) everDeployments(list []*model.PastDeployment) {
	if len(list) == 0 {
		s.printf("No deployments found")
		return
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{s.id(d.ID), d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription, when(d.CollectedAt)})
	}
	s.table([]string{"ID", "Job ID", "Job Version", "Status", "Description", "Collected"}, rows)
}

func (s *session) describeDeployment(d *model.Deployment) {
	s.pairs("ID", s.id(d.ID), "Job ID", d.JobID, "Job Version", strconv.FormatUint(d.JobVersion, 10), "Status", d.Status, "Description", d.StatusDescription)
	s.title("\nDeployed")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
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

// standing says what a deployment waits for, if it has not ended and the agent can say it.
func (s *session) standing(ctx context.Context, d *model.Deployment) {
	if !d.Active() {
		return
	}
	s.waitsFor(s.client.ExplainDeployment(ctx, d.ID))
}

func deploymentList() spec {
	return spec{
		usage: "deployment list [options]", synopsis: "Lists deployments", output: true,
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, false)
			all := allFlag(fs, "deployments")
			return func(ctx context.Context, s *session, _ []string) error {
				if *all {
					list, meta, err := s.client.PastDeployments(ctx, &q.Query)
					return s.show(list, err, func() {
						s.everDeployments(list)
						s.extent(meta)
					})
				}
				list, _, err := s.client.Deployments(ctx, &q.Query)
				return s.show(list, err, func() {
					s.deploymentTable(list)
				})
			}
		},
	}
}

// whole returns what is printed of a deployment: with the time of its collection only if it
// was collected.
func whole(d *model.PastDeployment) any {
	if d.CollectedAt.IsZero() {
		return d.Deployment
	}
	return d
}

func deploymentStatus() spec {
	return spec{
		usage: "deployment status [options] [<deployment>]", synopsis: "Shows one deployment, or lists all", max: 1, output: true, takes: "deployment", past: true,
		help: "With -monitor the exit code is 1 if the deployment does not succeed.\nA deployment that was collected is looked up in the history of the server that answers.",
		setup: func(fs *flag.FlagSet) run {
			monitor := fs.Bool("monitor", false, "Follows the deployment to its end.")
			wait := fs.Duration("wait", 2*time.Second, "With -monitor: shortest time between two updates of the display.")
			show := uiFlag(fs)
			one := func(ctx context.Context, s *session, id string) error {
				past, err := s.everDeployment(ctx, id)
				if err != nil {
					return err
				}
				d := past.Deployment
				s.client = s.client.WithNamespace(d.Namespace)
				if *monitor {
					if s.json || s.template != "" {
						return errors.New("-monitor cannot be combined with -json or -t")
					}
					if past.CollectedAt.IsZero() {
						return s.watchDeployment(ctx, d.ID, *wait)
					}
				}
				if done, err := s.formatted(whole(past)); done {
					return err
				}
				s.maybeUI(*show, uiJob(d.Namespace, d.JobID)+"/deployments")
				s.describeDeployment(d)
				if !past.CollectedAt.IsZero() {
					s.printf("\nIt was collected at %s; this is from the history of a server.", when(past.CollectedAt))
				}
				if *monitor {
					return s.deploymentResult(d)
				}
				s.standing(ctx, d)
				return nil
			}
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 1 {
					return one(ctx, s, args[0])
				}
				list, _, err := s.client.Deployments(ctx, nil)
				return s.show(list, err, func() {
					s.deploymentTable(list)
				})
			}
		},
	}
}

// deploymentVerb defines a command that changes a deployment.
func deploymentVerb(verb, synopsis string, follows bool, change func(ctx context.Context, s *session, id string) (*api.DeploymentUpdateResponse, error)) spec {
	return spec{
		usage: "deployment " + verb + " [options] <deployment>", synopsis: synopsis, min: 1, max: 1, takes: "deployment",
		setup: func(fs *flag.FlagSet) run {
			detach := new(bool)
			if follows {
				detach = detachFlag(fs)
			}
			return ofDeployment(func(ctx context.Context, s *session, d *model.Deployment) error {
				res, err := change(ctx, s, d.ID)
				if err != nil {
					return err
				}
				s.printf("Deployment %q: %s done", s.id(d.ID), verb)
				if res.RevertedJobVersion != nil {
					s.printf("The job was reverted to version %d", *res.RevertedJobVersion)
				}
				if !follows {
					return nil
				}
				s.client = s.client.WithNamespace(d.Namespace)
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func deploymentFail() spec {
	return deploymentVerb("fail", "Ends a deployment as failed", true, func(ctx context.Context, s *session, id string) (*api.DeploymentUpdateResponse, error) {
		return s.client.FailDeployment(ctx, id)
	})
}

func deploymentPause() spec {
	return deploymentVerb("pause", "Pauses a deployment", false, func(ctx context.Context, s *session, id string) (*api.DeploymentUpdateResponse, error) {
		return s.client.PauseDeployment(ctx, id, true)
	})
}

func deploymentResume() spec {
	return deploymentVerb("resume", "Resumes a paused deployment", true, func(ctx context.Context, s *session, id string) (*api.DeploymentUpdateResponse, error) {
		return s.client.PauseDeployment(ctx, id, false)
	})
}

func deploymentUnblock() spec {
	return deploymentVerb("unblock", "Unblocks a deployment that waits for another region", true, func(ctx context.Context, s *session, id string) (*api.DeploymentUpdateResponse, error) {
		return s.client.UnblockDeployment(ctx, id)
	})
}

func deploymentPromote() spec {
	return spec{
		usage: "deployment promote [options] <deployment>", synopsis: "Promotes the canaries of a deployment, which continues its roll-out", min: 1, max: 1, takes: "deployment",
		setup: func(fs *flag.FlagSet) run {
			groups, detach := lists(fs, "group", "Only this group."), detachFlag(fs)
			return ofDeployment(func(ctx context.Context, s *session, d *model.Deployment) error {
				res, err := s.client.PromoteDeployment(ctx, d.ID, *groups)
				if err != nil {
					return err
				}
				s.client = s.client.WithNamespace(d.Namespace)
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}
