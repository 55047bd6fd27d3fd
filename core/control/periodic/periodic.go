// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package periodic owns the controller that launches the children of periodic jobs at
// the times of their cron expressions. The last launch is in state: after a change of
// leader or a downtime a job is launched at most once for all missed times, and no
// time is launched twice. It does not create the children (core/fsm does) or parse
// cron expressions (core/cron does). core/server imports it.
package periodic

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// MaxLive is the number of children of a job that may be pending or running. Above it
// no further ones are launched; otherwise a job whose runs take longer than its
// interval would fill the cluster.
const MaxLive = 1000

// Reasons for skipping a time, stored in PeriodicLaunch.
const (
	SkippedOverlap = "an earlier launch had not ended, and the job prohibits overlap"
	SkippedLive    = "too many earlier launches had not ended"
)

// Controller handles one periodic job per key.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:        "periodic",
	Wakes:       []string{state.TableJobs},
	Reads:       []string{state.TableJobs, state.TableJobSummaries, state.TablePeriodic},
	Writes:      []fsm.Command{(*fsm.LaunchPeriodic)(nil)},
	Independent: true,
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns the periodic job that was added, changed or removed.
func (Controller) Keys(c state.Change) []string {
	for _, row := range []any{c.New, c.Old} {
		if job, ok := row.(*model.Job); ok && job.IsPeriodic() {
			return []string{state.JobKey(job.Namespace, job.ID)}
		}
	}
	return nil
}

// All returns the periodic jobs that launch children.
func (Controller) All(v control.View) []string {
	var keys []string
	for job := range v.Jobs("") {
		if job.IsPeriodicActive() {
			keys = append(keys, state.JobKey(job.Namespace, job.ID))
		}
	}
	return keys
}

// Decide launches a job if it is due, and returns when it is due next.
func (Controller) Decide(in control.Input, key string) (control.Decision, error) {
	job := in.View.JobByKey(key)
	if job == nil || !job.IsPeriodicActive() {
		return control.Decision{}, nil
	}
	schedule, err := job.Periodic.Schedule()
	if err != nil {
		return control.Decision{}, fmt.Errorf("periodic job %q in namespace %q: %w", job.ID, job.Namespace, err)
	}
	from := since(in, job)
	at := schedule.Last(from, in.Now)
	if at.IsZero() {
		return control.Decision{Wake: schedule.Next(from)}, nil
	}
	return control.Decision{Commands: []fsm.Command{launch(in, job, at)}, Wake: schedule.Next(in.Now)}, nil
}

// since returns the time up to which all launches are handled: the last launch, or the
// registration of this version.
func since(in control.Input, job *model.Job) time.Time {
	from := job.SubmitTime
	if last := in.View.PeriodicLaunch(job.Namespace, job.ID); last != nil {
		from = max(from, last.Launch)
	}
	if from > in.Now.Add(state.ClockTrust).UnixNano() {
		return in.Now.Add(-time.Minute) // stored by a server with a wrong clock
	}
	return time.Unix(0, from)
}

func launch(in control.Input, job *model.Job, at time.Time) fsm.Command {
	c := &fsm.LaunchPeriodic{Namespace: job.Namespace, ParentID: job.ID, Launch: at.UnixNano(), SubmitTime: in.Now.UnixNano()}
	if c.Skipped = skip(in, job); c.Skipped != "" {
		return c
	}
	c.Eval = model.NewEvaluation(in.NewID(), model.EvalTriggerPeriodicJob, job, in.Now)
	c.Eval.JobID = model.PeriodicChildID(job.ID, at.Unix())
	return c
}

// skip returns why no child may be launched now, or "".
func skip(in control.Input, job *model.Job) string {
	summary := in.View.JobSummary(job.Namespace, job.ID)
	if summary == nil {
		return ""
	}
	switch live := summary.Children.Pending + summary.Children.Running; {
	case live > 0 && job.Periodic.ProhibitOverlap:
		return SkippedOverlap
	case live >= MaxLive:
		return SkippedLive
	}
	return ""
}
