// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func jobAction() spec {
	return spec{
		usage: "job action [options] -job <job> <action>", synopsis: "Runs an action of a job in one of its tasks", min: 1, max: 1,
		help: "Without -alloc the action runs in one of the job's running allocations that has it.\nThe exit code is the exit code of the action's command.",
		setup: func(fs *flag.FlagSet) run {
			x := &execFlags{}
			x.declare(fs)
			jobID := fs.String("job", "", "The job. Required.")
			allocID := fs.String("alloc", "", "The allocation.")
			group := fs.String("group", "", "The group of the allocation.")
			task := fs.String("task", "", "The task, if several have an action of this name.")
			return func(ctx context.Context, s *session, args []string) error {
				if *jobID == "" {
					return errors.New("give the job with -job")
				}
				job, err := s.findJob(ctx, *jobID)
				if err != nil {
					return err
				}
				if *group, *task, err = s.placeOfAction(ctx, job, args[0], *group, *task); err != nil {
					return err
				}
				if *allocID != "" {
					a, err := s.findAlloc(ctx, *allocID)
					if err != nil {
						return err
					}
					*allocID = a.ID
				} else if *allocID, err = s.someAlloc(ctx, job.ID, *group, *task, true); err != nil {
					return err
				}
				return x.exec(ctx, s, &api.ExecRequest{AllocID: *allocID, Task: *task, Action: args[0], JobID: job.ID})
			}
		},
	}
}

// placeOfAction returns the group and the task that define the action.
func (s *session) placeOfAction(ctx context.Context, job *model.Job, name, group, task string) (string, string, error) {
	actions, _, err := s.client.JobActions(ctx, job.ID, nil)
	if err != nil {
		return "", "", err
	}
	var known []string
	for _, a := range actions {
		known = append(known, a.Name)
	}
	actions = slices.DeleteFunc(actions, func(a *api.JobAction) bool {
		return a.Name != name || group != "" && a.TaskGroupName != group || task != "" && a.TaskName != task
	})
	switch {
	case len(known) == 0:
		return "", "", fmt.Errorf("job %q has no actions; add `action` blocks to its tasks", job.ID)
	case len(actions) == 0:
		return "", "", fmt.Errorf("job %q has no action %q; it has: %v", job.ID, name, known)
	case len(actions) > 1:
		return "", "", fmt.Errorf("several tasks of job %q have an action %q; name one with -group and -task", job.ID, name)
	}
	return actions[0].TaskGroupName, actions[0].TaskName, nil
}
