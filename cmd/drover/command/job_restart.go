// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/sleep"
)

// restart is one run of "job restart".
type restart struct {
	*session
	groups, tasks             *stringList
	size, wait, onError       string
	allTasks, reschedule      bool
	noShutdownDelay, answered bool
	outcome                   sync.Mutex // guards printing
}

func jobRestart() spec {
	return spec{
		usage: "job restart [options] <job>", synopsis: "Restarts the tasks of a job in batches, or moves its allocations", min: 1, max: 1, takes: "jobs",
		help: "Tasks are restarted in place. With -reschedule the allocations are stopped and replaced\ninstead. The next batch begins once the previous one runs.",
		setup: func(fs *flag.FlagSet) run {
			r := &restart{groups: lists(fs, "group", "Only this group."), tasks: lists(fs, "task", "Only this task.")}
			fs.StringVar(&r.size, "batch-size", "1", "Number of allocations per batch, or a percentage of all.")
			fs.StringVar(&r.wait, "batch-wait", "0s", "Pause between batches, or ask to be prompted before each batch.")
			fs.StringVar(&r.onError, "on-error", "ask", "What to do after an error: ask whether to continue, or fail.")
			fs.BoolVar(&r.allTasks, "all-tasks", false, "Restarts tasks that have ended, too.")
			fs.BoolVar(&r.reschedule, "reschedule", false, "Stops the allocations so that the scheduler replaces them.")
			fs.BoolVar(&r.noShutdownDelay, "no-shutdown-delay", false, "With -reschedule: ignores the shutdown_delay of groups and tasks.")
			fs.BoolVar(&r.answered, "yes", false, "Answers yes to all prompts.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				r.session = s
				return r.run(ctx, job)
			})
		},
	}
}

func (r *restart) check(job *model.Job) error {
	switch {
	case r.reschedule && (r.allTasks || len(*r.tasks) > 0):
		return errors.New("-reschedule replaces whole allocations; remove -task and -all-tasks")
	case r.allTasks && len(*r.tasks) > 0:
		return errors.New("give either -task or -all-tasks")
	case r.noShutdownDelay && !r.reschedule:
		return errors.New("-no-shutdown-delay needs -reschedule")
	case r.onError != "ask" && r.onError != "fail":
		return fmt.Errorf("-on-error %q: use ask or fail", r.onError)
	case r.reschedule && (job.Type == model.JobTypeSystem || job.Type == model.JobTypeSysBatch):
		return fmt.Errorf("jobs of type %s are not rescheduled; remove -reschedule", job.Type)
	}
	for _, g := range *r.groups {
		if job.LookupTaskGroup(g) == nil {
			return fmt.Errorf("job %q has no group %q", job.ID, g)
		}
	}
	for _, t := range *r.tasks {
		if !slices.ContainsFunc(job.TaskGroups, func(g *model.TaskGroup) bool { return g.LookupTask(t) != nil }) {
			return fmt.Errorf("job %q has no task %q", job.ID, t)
		}
	}
	return nil
}

func (r *restart) run(ctx context.Context, job *model.Job) error {
	if err := r.check(job); err != nil {
		return err
	}
	var pause time.Duration
	if r.wait != "ask" {
		var err error
		if pause, err = time.ParseDuration(r.wait); err != nil {
			return fmt.Errorf("-batch-wait %q: use a duration or ask: %w", r.wait, err)
		}
	}
	stubs, _, err := r.client.JobAllocations(ctx, job.ID, false, nil)
	if err != nil {
		return err
	}
	stubs = slices.DeleteFunc(stubs, func(a *model.AllocListStub) bool {
		return a.ClientStatus != model.AllocClientStatusRunning || a.DesiredStatus != model.AllocDesiredStatusRun ||
			len(*r.groups) > 0 && !slices.Contains(*r.groups, a.TaskGroup)
	})
	if len(stubs) == 0 {
		r.printf("No allocations to restart")
		return nil
	}
	size, err := batchSize(r.size, len(stubs))
	if err != nil {
		return err
	}
	r.step("Restarting %d allocations of job %q, %d at once", len(stubs), job.ID, size)
	failed := 0
	for batch := range slices.Chunk(stubs, size) {
		if err := r.between(ctx, pause, batch[0] == stubs[0]); err != nil {
			return err
		}
		errs := r.batch(ctx, batch)
		failed += len(errs)
		if err := r.decide(errs); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d allocations could not be restarted", failed, len(stubs))
	}
	r.step("Job restart finished")
	return nil
}

// errStopped is returned when the user stops a restart.
var errStopped = &exitCode{code: exitError, err: errors.New("the restart was stopped before all allocations had been restarted")}

// between waits, or asks the user, before every batch but the first.
func (r *restart) between(ctx context.Context, pause time.Duration, first bool) error {
	switch {
	case first:
	case r.wait == "ask":
		sure, err := r.confirm(r.answered, "Continue with the next batch?")
		switch {
		case err != nil:
			return err
		case !sure:
			return errStopped
		}
	case pause > 0:
		r.step("Waiting %s before the next batch", pause)
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// decide returns what the errors of a batch lead to: an error that stops the
// restart, or nil.
func (r *restart) decide(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	for _, err := range errs {
		r.printf("    %s", client.Text(err))
	}
	if r.onError == "fail" {
		return errs[0]
	}
	sure, err := r.confirm(r.answered, "Continue after this error?")
	switch {
	case err != nil:
		return errors.Join(errs[0], err)
	case !sure:
		return errStopped
	}
	return nil
}

// batch restarts several allocs concurrently and returns the errors of those that
// failed.
func (r *restart) batch(ctx context.Context, batch []*model.AllocListStub) (errs []error) {
	var all sync.WaitGroup
	for _, a := range batch {
		all.Go(func() {
			err := r.one(ctx, a)
			r.outcome.Lock()
			defer r.outcome.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("allocation %q: %w", r.id(a.ID), err))
				return
			}
			r.printf("    %s: allocation %q restarted", time.Now().Format(time.RFC3339), r.id(a.ID))
		})
	}
	all.Wait()
	return errs
}

func (r *restart) one(ctx context.Context, a *model.AllocListStub) error {
	switch {
	case r.reschedule:
		res, err := r.client.StopAllocation(ctx, a.ID, r.noShutdownDelay)
		if err != nil {
			return err
		}
		return r.awaitReplacement(ctx, a, res.EvalID)
	case len(*r.tasks) == 0:
		if err := r.client.RestartAllocation(ctx, a.ID, "", r.allTasks); err != nil {
			return err
		}
		return r.awaitRestarted(ctx, a, nil)
	}
	for _, t := range *r.tasks {
		if _, has := a.TaskStates[t]; has {
			if err := r.client.RestartAllocation(ctx, a.ID, t, false); err != nil {
				return err
			}
		}
	}
	return r.awaitRestarted(ctx, a, *r.tasks)
}

// awaitRestarted waits until the tasks that ran have been restarted; nil tasks means
// all tasks.
func (r *restart) awaitRestarted(ctx context.Context, old *model.AllocListStub, tasks []string) error {
	q := &client.Query{}
	for {
		a, meta, err := r.client.Allocation(ctx, old.ID, q)
		if err != nil {
			return err
		}
		if a.TerminalStatus() {
			return fmt.Errorf("it is %s after its restart; see: drover alloc status %s", a.ClientStatus, r.id(a.ID))
		}
		waits := false
		for name, was := range old.TaskStates {
			now := a.TaskStates[name]
			if was.State != model.TaskStateRunning || len(tasks) > 0 && !slices.Contains(tasks, name) {
				continue
			}
			waits = waits || now == nil || now.State != model.TaskStateRunning || !laterStart(now, was)
		}
		if !waits {
			return nil
		}
		q.WaitIndex, q.WaitTime = meta.Index, 5*time.Second
	}
}

func laterStart(now, was *model.TaskState) bool {
	return now.StartedAt != nil && (was.StartedAt == nil || now.StartedAt.After(*was.StartedAt))
}

// awaitReplacement waits until the alloc that replaces a stopped one runs.
func (r *restart) awaitReplacement(ctx context.Context, old *model.AllocListStub, evalID string) error {
	eval, err := r.awaitEval(ctx, evalID)
	if err != nil {
		return err
	}
	if len(eval.FailedTGAllocs) > 0 {
		return fmt.Errorf("it was stopped, but no replacement could be placed; see: drover eval status %s", r.id(eval.ID))
	}
	q := &client.Query{}
	for {
		list, meta, err := r.client.EvaluationAllocations(ctx, evalID, q)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(a *model.AllocListStub) bool { return a.Name == old.Name && a.ID != old.ID })
		switch {
		case i < 0:
			return nil // there is no replacement: the job's count was lowered meanwhile
		case list[i].ClientStatus == model.AllocClientStatusRunning:
			return nil
		case list[i].ClientStatus != model.AllocClientStatusPending:
			return fmt.Errorf("its replacement %q is %s; see: drover alloc status %s", r.id(list[i].ID), list[i].ClientStatus, r.id(list[i].ID))
		}
		q.WaitIndex, q.WaitTime = meta.Index, 5*time.Second
	}
}

func batchSize(text string, total int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("-batch-size %q: use a number above 0 or a percentage", text)
	}
	if percent {
		n = max(total*n/100, 1)
	}
	return n, nil
}
