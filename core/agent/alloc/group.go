// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Names of the steps of a group, in the order of their preparation.
const (
	GroupPrevious     = "previous alloc"        // waiting until it has ended on this node
	GroupPreempted    = "preempted allocs"      // the same for allocs that were preempted for this one
	GroupPreviousData = "previous alloc's data" // moving the data of a sticky disk here
	GroupVolumes      = "host volumes"          // looking whether the group's volumes are there
	GroupClaims       = "volume claims"         // waiting until the servers grant the volumes of storage plugins
	GroupStaged       = "staged volumes"        // preparing those volumes on the node
	GroupPublished    = "published volumes"     // bringing them to the alloc
	GroupNetwork      = "network"               // making the network that the tasks share
)

// groupStep is a step of a group with the functions that carry it out.
type groupStep struct {
	group.StepSpec
	needed  func() bool // asked when the node receives the alloc, without the runner's lock
	prepare func(ctx context.Context) error
	undo    func(ctx context.Context) error // nil if the step leaves nothing
}

// groupSteps returns all steps that this agent knows. The scheduler gives a replacement
// the ports and the room of the alloc before it, so that one has to end first; its own
// kill timeout bounds that. The same holds for the allocs that were preempted for it.
func (r *Runner) groupSteps() []groupStep {
	before, preempted := r.alloc.PreviousAllocation, r.alloc.PreemptedAllocations
	disk := r.group.EphemeralDisk
	data := groupStep{
		StepSpec: group.StepSpec{Name: GroupPreviousData, Owner: "node", Limit: r.cfg.Limits.Disk},
		needed:   func() bool { return before != "" && disk != nil && disk.Sticky },
		prepare:  func(ctx context.Context) error { return r.takeOverData(ctx, before) },
	}
	if r.movesFrom(before) { // it ends by itself: the servers report when the other node is lost
		data.Owner, data.Limit = "node that had alloc "+before, 0
		data.prepare = func(ctx context.Context) error { return r.fetchData(ctx, before) }
	}
	first := []groupStep{
		{
			StepSpec: group.StepSpec{Name: GroupPrevious, Owner: "alloc " + before},
			needed:   func() bool { return before != "" && r.cfg.runs(before) },
			prepare:  func(ctx context.Context) error { return r.awaitEnd(ctx, before) },
		},
		{
			StepSpec: group.StepSpec{Name: GroupPreempted, Owner: "allocs " + strings.Join(preempted, ", ")},
			needed:   func() bool { return slices.ContainsFunc(preempted, r.cfg.runs) },
			prepare: func(ctx context.Context) error {
				for _, id := range preempted {
					if err := r.awaitEnd(ctx, id); err != nil {
						return err
					}
				}
				return nil
			},
		},
		data,
		{
			StepSpec: group.StepSpec{Name: GroupVolumes, Owner: "node", Limit: r.cfg.Limits.Disk},
			needed:   r.needsVolumes,
			prepare:  func(context.Context) error { return r.checkVolumes() },
		},
	}
	return append(append(first, r.storageSteps()...), groupStep{
		StepSpec: specOfStep(GroupNetwork, "network plugin", r.cfg.Limits.Network, true),
		needed:   r.needsNetwork,
		prepare:  r.makeNetwork,
		undo:     r.removeNetwork,
	})
}

func specOfStep(name, owner string, limit time.Duration, leaves bool) group.StepSpec {
	return group.StepSpec{Name: name, Owner: owner, Limit: limit, Leaves: leaves}
}

// insisting is a step whose teardown the end of the alloc waits for.
func insisting(s group.StepSpec) group.StepSpec {
	s.Insists = true
	return s
}

// newGroup returns the state of a group that this node has just received. A task that
// has started proves that its group was ready.
func (r *Runner) newGroup() group.State {
	for _, t := range r.tasks {
		if t.state.Run > 0 {
			return group.State{Phase: group.Ready, WasReady: true}
		}
	}
	var steps []group.StepSpec
	for _, s := range r.groupSteps() {
		if s.needed() {
			steps = append(steps, s.StepSpec)
		}
	}
	return group.New(steps)
}

// runs reports whether an alloc has not ended on this node.
func (c *Config) runs(allocID string) bool {
	if c.Previous == nil {
		return false
	}
	over := c.Previous(allocID)
	if over == nil {
		return false
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}

func (r *Runner) awaitEnd(ctx context.Context, before string) error {
	if !r.cfg.runs(before) {
		return nil
	}
	select {
	case <-r.cfg.Previous(before):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeOverData moves the data of a sticky disk here from the alloc before, if that was
// on this node. It may be repeated.
func (r *Runner) takeOverData(ctx context.Context, before string) error {
	if err := r.buildDir(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	tasks := r.taskNames()
	r.mu.Unlock()
	from := allocdir.New(r.cfg.Root, before)
	if err := r.adoptData(ctx, from, tasks); err != nil {
		return err
	}
	return r.dir.TakeOver(from, tasks)
}

// tearDownLimit limits a try to tear down a step of a group.
const tearDownLimit = time.Minute

func (r *Runner) groupPolicy() group.Policy {
	out := group.Policy{Restart: model.RestartPolicy{Mode: model.RestartPolicyModeFail}, TearDownLimit: tearDownLimit}
	if p := r.group.RestartPolicy; p != nil {
		out.Restart = *p
	}
	return out
}

// beginGroup begins the group, or continues where an earlier agent stopped.
func (r *Runner) beginGroup(e *effects) {
	next, list := group.Resume(r.groupPolicy(), r.phase, r.cfg.Now())
	r.setGroup(next, list, e)
	r.stepGroup(group.Begin{}, e)
}

func (r *Runner) stepGroup(ev group.Event, e *effects) {
	next, list := group.Step(r.groupPolicy(), r.phase, ev, r.cfg.Now())
	r.setGroup(next, list, e)
}

func (r *Runner) setGroup(next group.State, list []group.Effect, e *effects) {
	changed := next.Phase != r.phase.Phase || next.Try != r.phase.Try
	r.phaseDirty = r.phaseDirty || changed && len(next.Steps) > 0
	becameReady := changed && next.Phase == group.Ready && len(next.Steps) > 0
	r.phase = next
	e.group = append(e.group, list...)
	if becameReady {
		r.received = r.cfg.Now() // the time for becoming healthy begins now
		r.saveAlloc()
	}
}

// postGroup applies an event to the group.
func (r *Runner) postGroup(ev group.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	var e effects
	before, try := r.phase, r.phase.Try
	r.stepGroup(ev, &e)
	if step := r.phase.Current(); r.phase.Phase == group.Backoff && r.phase.Try == try && step.LastError != "" {
		if _, failed := ev.(group.Failed); failed {
			r.noteAll(model.EventSetupFailure(fmt.Sprintf("step %q of the group failed and is tried again: %s", step.Name, step.LastError)), &e)
		}
	}
	r.noteTearDown(before, ev, &e)
	r.settle(&e)
}

// noteTearDown says in an event that a step could not be torn down: the first time, and when
// it is given up or has failed so often that another one would be.
func (r *Runner) noteTearDown(before group.State, ev group.Event, e *effects) {
	failed, ok := ev.(group.TearDownFailed)
	step := before.Current()
	if !ok || step == nil || before.Phase != group.TearDown || failed.Try != before.Try {
		return
	}
	what := "is tried again"
	switch {
	case r.phase.Phase != group.Lingering:
		what = "is given up; the node looks for what is left from time to time"
	case before.TearFailed == 0:
	case before.TearFailed+1 == group.TearDownTries:
		what = "is tried again until it succeeds; the alloc ends then and not before"
	default:
		return
	}
	text := fmt.Sprintf("step %q of the group cannot be torn down and %s: %s", step.Name, what, oneLine(failed.Err))
	r.noteAll(model.TaskEvent{Type: model.TaskHookMessage, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}, e)
}

// noteAll adds an event to every task.
func (r *Runner) noteAll(ev model.TaskEvent, e *effects) {
	for name := range r.tasks {
		r.step(name, task.Note{Event: ev}, e)
	}
}

// carryOutGroup carries out the effects of the group's transitions.
func (r *Runner) carryOutGroup(list []group.Effect) {
	for _, e := range list {
		switch e := e.(type) {
		case group.WakeUp:
			if r.groupTimer != nil {
				r.groupTimer.Stop()
			}
			r.groupTimer = time.AfterFunc(e.At.Sub(r.cfg.Now()), func() { r.postGroup(group.Wake{Jitter: r.cfg.Jitter()}) })
		case group.Cancel:
			if r.groupCancel != nil {
				r.groupCancel()
			}
		case group.Prepare:
			r.doGroupStep(e.Step, e.Try, func(s groupStep) func(context.Context) error { return s.prepare }, func(err error) group.Event {
				if err != nil {
					return group.Failed{Try: e.Try, Err: err.Error(), Retry: mayRetry(err), Jitter: r.cfg.Jitter()}
				}
				return group.Prepared{Try: e.Try}
			})
		case group.Undo:
			r.doGroupStep(e.Step, e.Try, func(s groupStep) func(context.Context) error { return s.undo }, func(err error) group.Event {
				if err != nil {
					return group.TearDownFailed{Try: e.Try, Err: err.Error()}
				}
				return group.TornDown{Try: e.Try}
			})
		}
	}
}

// doGroupStep does one try of a step and posts the answer. A try that ignores its end is
// left behind; the next one begins when it has ended.
func (r *Runner) doGroupStep(name string, try uint64, pick func(groupStep) func(context.Context) error, answer func(error) group.Event) {
	do := func(context.Context) error {
		return errdefs.InvalidArgumentf("this agent does not know the step %q of a group; upgrade it", name)
	}
	for _, s := range r.groupSteps() {
		if f := pick(s); s.Name == name && f != nil {
			do = f
		}
	}
	ctx, cancel := context.WithCancel(r.ctx)
	before, over := r.groupLeft, make(chan struct{})
	r.groupCancel, r.groupLeft = cancel, over
	r.work.Go(func() {
		defer cancel()
		slow := time.AfterFunc(r.cfg.Limits.Slow, func() { r.noteSlowGroup(try) })
		defer slow.Stop()
		err := doWithin(ctx, before, over, r.survived(name, do))
		if r.ctx.Err() == nil { // otherwise the next agent continues
			r.postGroup(answer(err))
		}
	})
}

// doWithin calls do after before was closed, and closes over when it has returned. It
// does not wait for a call that ignores the end of ctx.
func doWithin(ctx context.Context, before <-chan struct{}, over chan<- struct{}, do func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		defer close(over)
		if before != nil {
			<-before
		}
		if err := ctx.Err(); err != nil {
			done <- err
			return
		}
		done <- do(ctx)
	}()
	answered, err := awaitAnswer(ctx, done)
	if !answered {
		return errdefs.DeadlineExceededf("it does not answer")
	}
	return err
}

// noteSlowGroup adds an event to the tasks that names the step for which their group waits.
func (r *Runner) noteSlowGroup(try uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := r.phase.Current()
	if r.closed || step == nil || r.phase.Try != try || r.phase.Phase != group.Preparing {
		return
	}
	text := fmt.Sprintf("step %q of the group has taken %s; it waits for the %s", step.Name, r.cfg.Limits.Slow, step.Owner)
	switch {
	case step.Name == GroupClaims && r.groupDetail != "":
		text += ": " + r.groupDetail
	case step.Name == GroupPreviousData && r.fetchingDetail != "": // it may wait for room on this node
		text = fmt.Sprintf("step %q of the group has taken %s: %s", step.Name, r.cfg.Limits.Slow, r.fetchingDetail)
	}
	if !step.Deadline.IsZero() {
		text += fmt.Sprintf(" and ends at the latest after %s", step.Limit)
	}
	var e effects
	r.noteAll(model.TaskEvent{Type: model.TaskHookMessage, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}, &e)
	r.settle(&e)
}
