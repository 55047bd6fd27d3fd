// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package periodic_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/periodic"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

// world is a state, a clock and what a supervisor does with the controller.
type world struct {
	t    *testing.T
	fsm  *fsm.FSM
	now  time.Time
	wake time.Time
	ids  int
}

func newWorld(t *testing.T, now string) *world {
	t.Helper()
	store := state.New()
	invariants.AtEnd(t, store)
	return &world{t: t, fsm: fsm.New(store, hclog.NewNullLogger()), now: at(t, now)}
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *world) view() *state.View { return w.fsm.Store().View() }

func (w *world) apply(c fsm.Command) {
	w.t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	if err, failed := w.fsm.ApplyBatch([]fsm.Entry{{Index: w.view().Index() + 1, Data: data}})[0].(error); failed {
		w.t.Fatal(err)
	}
}

func (w *world) register(edit func(*model.Job)) {
	w.t.Helper()
	job := &model.Job{Namespace: "default", ID: "p", Name: "p", Type: model.JobTypeBatch, Priority: 50, SubmitTime: w.now.UnixNano(),
		Periodic:   &model.PeriodicConfig{Enabled: true, Specs: []string{"*/15 * * * *"}, TimeZone: "UTC"},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1}}}
	if edit != nil {
		edit(job)
	}
	w.apply(&fsm.UpsertJob{Job: job})
}

// decide has the controller decide now, and carries out what it decides.
func (w *world) decide() {
	w.t.Helper()
	d, err := control.Decide(periodic.Controller{}, w.view(), w.now, func() string { w.ids++; return fmt.Sprint("e", w.ids) }, state.JobKey("default", "p"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range d.Commands {
		w.apply(c)
	}
	w.wake = d.Wake
}

// until runs the controller at its own wishes up to a time, and then at that time.
func (w *world) until(s string) {
	w.t.Helper()
	end := at(w.t, s)
	for w.decide(); !w.wake.IsZero() && !w.wake.After(end); w.decide() {
		if !w.wake.After(w.now) {
			w.t.Fatalf("at %s it wants to wake at %s", w.now, w.wake)
		}
		w.now = w.wake
	}
	w.now = end
}

// launched lists the children by their time.
func (w *world) launched() string {
	out := ""
	for _, j := range w.view().JobChildren("default", "p") {
		var sec int64
		if _, err := fmt.Sscanf(j.ID, "p/periodic-%d", &sec); err != nil {
			w.t.Fatalf("child %q: %v", j.ID, err)
		}
		out += time.Unix(sec, 0).UTC().Format("15:04") + " "
	}
	return out
}

// end ends all children.
func (w *world) end() {
	w.t.Helper()
	for _, j := range w.view().JobChildren("default", "p") {
		w.apply(&fsm.UpsertEvals{Evals: []*model.Evaluation{{ID: "done-" + j.ID, Namespace: "default", JobID: j.ID, Status: model.EvalStatusComplete}}})
		for e := range w.view().Evals() {
			if e.JobID == j.ID && !e.TerminalStatus() {
				c := e.Copy()
				c.Status = model.EvalStatusComplete
				w.apply(&fsm.UpsertEvals{Evals: []*model.Evaluation{c}})
			}
		}
	}
}

func (w *world) expect(want string) {
	w.t.Helper()
	if got := w.launched(); got != want {
		w.t.Errorf("launched %q, not %q", got, want)
	}
}

func TestAJobIsLaunchedAtEachOfItsTimesAndNeverBeforeItsRegistration(t *testing.T) {
	w := newWorld(t, "2026-11-21T10:07:00Z")
	w.register(nil)
	w.until("2026-11-21T10:50:00Z")
	w.expect("10:15 10:30 10:45 ")
	if e := w.view().EvalByID("e1"); e == nil || e.TriggeredBy != model.EvalTriggerPeriodicJob || e.JobID != "p/periodic-1795256100" || e.Status != model.EvalStatusPending {
		t.Errorf("the eval of the first launch is %+v", e)
	}
	if w.wake != at(t, "2026-11-21T11:00:00Z") {
		t.Errorf("it wants to wake at %s", w.wake)
	}
}

func TestADowntimeIsMadeUpForByOneLaunch(t *testing.T) {
	w := newWorld(t, "2026-11-21T10:07:00Z")
	w.register(nil)
	w.until("2026-11-21T10:20:00Z")
	w.now = at(t, "2026-11-21T13:07:00Z") // nobody led in between
	w.decide()
	w.decide() // and the next leader asks again
	w.expect("10:15 13:00 ")
	if w.wake != at(t, "2026-11-21T13:15:00Z") {
		t.Errorf("it wants to wake at %s", w.wake)
	}
}

func TestOverlapIsSkippedForGood(t *testing.T) {
	w := newWorld(t, "2026-11-21T10:07:00Z")
	w.register(func(j *model.Job) { j.Periodic.ProhibitOverlap = true })
	w.until("2026-11-21T10:40:00Z") // the first one goes on and on
	w.expect("10:15 ")
	if l := w.view().PeriodicLaunch("default", "p"); l.Skipped != periodic.SkippedOverlap || l.Launch != at(t, "2026-11-21T10:30:00Z").UnixNano() {
		t.Errorf("the launch is %+v", l)
	}
	w.end()
	w.until("2026-11-21T10:44:00Z") // what was skipped is not made up for
	w.expect("10:15 ")
	w.until("2026-11-21T10:46:00Z")
	w.expect("10:15 10:45 ")
}

func TestJobsThatAreStoppedDisabledOrGoneAreNotLaunched(t *testing.T) {
	for name, change := range map[string]func(*world){
		"stopped":  func(w *world) { w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "p"}) },
		"purged":   func(w *world) { w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "p", Purge: true}) },
		"disabled": func(w *world) { w.register(func(j *model.Job) { j.Periodic.Enabled = false }) },
	} {
		w := newWorld(t, "2026-11-21T10:07:00Z")
		w.register(nil)
		w.decide()
		change(w)
		w.now = at(t, "2026-11-21T10:20:00Z")
		if w.decide(); w.launched() != "" || !w.wake.IsZero() {
			t.Errorf("%s: launched %q, wakes at %s", name, w.launched(), w.wake)
		}
	}
}

func TestWhatWasMissedWhileDisabledStaysMissed(t *testing.T) {
	w := newWorld(t, "2026-11-21T10:07:00Z")
	w.register(func(j *model.Job) { j.Periodic.Enabled = false })
	w.until("2026-11-21T12:01:00Z")
	w.register(nil)
	w.until("2026-11-21T12:16:00Z")
	w.expect("12:15 ")
}

func TestAWrongClockOfThePastDoesNotStopLaunches(t *testing.T) {
	w := newWorld(t, "2027-11-21T10:07:00Z") // a year ahead
	w.register(nil)
	w.until("2027-11-21T10:16:00Z")
	w.now = at(t, "2026-11-21T10:20:00Z")
	w.until("2026-11-21T10:50:00Z")
	w.expect("10:15 10:30 10:45 ") // the first of 2027
	if n := len(w.view().JobChildren("default", "p")); n != 3 {
		t.Errorf("%d children", n)
	}
}

func TestAJobThatFiresEachSecondIsBounded(t *testing.T) {
	w := newWorld(t, "2026-11-21T10:00:00Z")
	w.register(func(j *model.Job) { j.Periodic.Specs = []string{"* * * * * * *"} })
	w.until("2026-11-21T10:20:00Z")
	if n := len(w.view().JobChildren("default", "p")); n != periodic.MaxLive {
		t.Errorf("%d children have not ended", n)
	}
	if l := w.view().PeriodicLaunch("default", "p"); l.Skipped != periodic.SkippedLive {
		t.Errorf("the launch is %+v", l)
	}
}

func TestOnlyPeriodicJobsMakeTheControllerDecide(t *testing.T) {
	c := periodic.Controller{}
	job := &model.Job{Namespace: "default", ID: "p", Periodic: &model.PeriodicConfig{}}
	child := &model.Job{Namespace: "default", ID: "p/periodic-1", ParentID: "p"}
	for name, change := range map[string]state.Change{"new": {New: job}, "gone": {Old: job}, "no more periodic": {Old: job, New: child}} {
		if got := c.Keys(change); len(got) != 1 || got[0] != state.JobKey("default", "p") {
			t.Errorf("%s: keys are %q", name, got)
		}
	}
	if got := c.Keys(state.Change{New: child}); got != nil {
		t.Errorf("a child makes %q dirty", got)
	}
	w := newWorld(t, "2026-11-21T10:00:00Z")
	w.register(nil)
	if got, err := control.All(c, w.view()); err != nil || len(got) != 1 {
		t.Errorf("all keys are %q", got)
	}
}

// counted applies commands at once and counts the entries.
type counted struct {
	mu      sync.Mutex
	fsm     *fsm.FSM
	entries int
}

func (c *counted) Propose(_ context.Context, data []byte) (uint64, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries++
	index := c.fsm.Store().View().Index() + 1
	if err, ok := c.fsm.ApplyBatch([]fsm.Entry{{Index: index, Data: data}})[0].(error); ok {
		return index, nil, err
	}
	return index, nil, nil
}

func TestManyJobsOfOneMinuteAreLaunchedInFewEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1000
		w := &world{t: t, fsm: fsm.New(state.New(), hclog.NewNullLogger()), now: time.Now()}
		for i := range jobs {
			w.register(func(j *model.Job) { j.ID, j.Periodic.Specs = fmt.Sprint("p", i), []string{"* * * * *"} })
		}
		log := &counted{fsm: w.fsm}
		var ids atomic.Int64
		s := control.NewLoops(w.fsm.Store(), log, func() string { return fmt.Sprint("e", ids.Add(1)) }, hclog.NewNullLogger())
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second) // of the bubble's clock
		defer cancel()
		s.Run(ctx, periodic.Controller{})
		for i := range jobs {
			if n := len(w.view().JobChildren("default", fmt.Sprint("p", i))); n != 2 {
				t.Fatalf("job %d was launched %d times in two minutes and a half", i, n)
			}
		}
		if log.entries > 2*(jobs/256+2) {
			t.Errorf("%d launches took %d entries", 2*jobs, log.entries)
		}
	})
}
