// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package group_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/model"
)

var (
	update = flag.Bool("update", false, "write the generated part of docs/design/task-states.md")
	start  = time.Unix(1000, 0).UTC()
	policy = group.Policy{
		Restart:       model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 10 * time.Second, Mode: model.RestartPolicyModeFail},
		TearDownLimit: time.Minute,
	}
	steps = []group.StepSpec{
		{Name: "wait", Owner: "alloc a0"},
		{Name: "network", Owner: "plugin cni", Limit: time.Minute, Leaves: true},
		{Name: "volume", Owner: "plugin csi", Limit: time.Minute, Leaves: true},
	}
)

// rig drives a group, stores its state and wakes it when it asks for that, as an agent does.
type rig struct {
	t   *testing.T
	now time.Time
	s   group.State
	log []string // the effects, without wake-ups
	due []time.Time
	try uint64 // the last try of any step
}

func newRig(t *testing.T) *rig { return &rig{t: t, now: start, s: group.New(steps)} }

func (r *rig) note(effects []group.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case group.Prepare:
			again := ""
			if e.Again {
				again = " again"
			}
			r.log = append(r.log, "+"+e.Step+again)
			r.tries(e.Try)
		case group.Undo:
			r.log = append(r.log, "-"+e.Step)
			r.tries(e.Try)
		case group.Cancel:
			r.log = append(r.log, "cancel")
		case group.WakeUp:
			r.due = append(r.due, e.At)
		}
	}
}

// tries checks that each try has a number of its own, by which late answers are told apart.
func (r *rig) tries(n uint64) {
	r.t.Helper()
	if n != r.try+1 {
		r.t.Fatalf("try %d follows try %d", n, r.try)
	}
	r.try = n
}

// wake wakes the group at the times for which it asked, until it does something.
func (r *rig) wake() {
	for done := len(r.log); len(r.log) == done && len(r.due) > 0; {
		slices.SortFunc(r.due, time.Time.Compare)
		if r.due[0].After(r.now) {
			r.now = r.due[0]
		}
		r.due = r.due[1:]
		r.step(group.Wake{})
	}
}

func (r *rig) step(events ...group.Event) *rig {
	for _, ev := range events {
		given, steps := r.s, slices.Clone(r.s.Steps)
		next, effects := group.Step(policy, r.s, ev, r.now)
		if !slices.Equal(given.Steps, steps) {
			r.t.Fatalf("%T changed the state that it was given", ev)
		}
		r.s = next
		r.note(effects)
	}
	return r
}

// do applies events in short: ok, fail, bad, down, stuck (of the current try), stop,
// and wake at the time that the group asked for.
func (r *rig) do(words string) *rig {
	for _, w := range strings.Fields(words) {
		switch w {
		case "begin":
			r.step(group.Begin{})
		case "ok":
			r.step(group.Prepared{Try: r.s.Try})
		case "fail":
			r.step(group.Failed{Try: r.s.Try, Err: "no luck", Retry: true})
		case "bad":
			r.step(group.Failed{Try: r.s.Try, Err: "never", Retry: false})
		case "down":
			r.step(group.TornDown{Try: r.s.Try})
		case "stuck":
			r.step(group.TearDownFailed{Try: r.s.Try, Err: "busy"})
		case "stop":
			r.step(group.Stop{})
		case "wake":
			r.wake()
		case "restart":
			r.restart()
		default:
			r.t.Fatalf("no word %q", w)
		}
	}
	return r
}

// restart reads the state back as the next agent does.
func (r *rig) restart() {
	var s group.State
	if err := json.Unmarshal([]byte(mustJSON(r.t, r.s)), &s); err != nil {
		r.t.Fatal(err)
	}
	if !reflect.DeepEqual(s, r.s) {
		r.t.Fatalf("read back %+v, want %+v", s, r.s)
	}
	r.due, r.now = nil, r.now.Add(time.Second) // timers end with the agent
	next, effects := group.Resume(policy, s, r.now)
	if !reflect.DeepEqual(s, r.s) {
		r.t.Fatal("a restart changed the state that it was given")
	}
	r.s = next
	r.note(effects)
}

func mustJSON(t *testing.T, v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAGroupIsPreparedInOrderAndTornDownInReverse(t *testing.T) {
	const ready = "+wait, +network, +volume"
	for _, c := range []struct {
		name, words string
		phase       group.Phase
		log         string
	}{
		{"in order", "begin ok ok ok", group.Ready, ready},
		{"begun twice", "begin begin ok ok ok begin", group.Ready, ready},
		{"in reverse", "begin ok ok ok stop down down", group.Over, ready + ", -volume, -network"},
		{"stopped twice", "begin ok ok ok stop stop down stop down stop", group.Over, ready + ", -volume, -network"},
		{"never begun", "stop begin", group.Over, ""},

		{"the first step fails once", "begin fail wake ok ok ok", group.Ready, "+wait, " + ready},
		{"the second step fails once", "begin ok fail wake ok ok", group.Ready, "+wait, +network, +network, +volume"},
		{"the last step fails once", "begin ok ok fail wake ok", group.Ready, ready + ", +volume"},
		{"the first step fails for good", "begin bad", group.Over, "+wait"},
		{"the second step fails for good", "begin ok bad down", group.Over, "+wait, +network, -network"},
		{"the last step fails for good", "begin ok ok bad down down", group.Over, ready + ", -volume, -network"},
		{"too many failures", "begin ok fail wake fail down", group.Over, "+wait, +network, +network, -network"},

		{"restart in the first step", "begin restart ok ok ok", group.Ready, "+wait, +wait again, +network, +volume"},
		{"restart in the second step", "begin ok restart ok ok", group.Ready, "+wait, +network, +network again, +volume"},
		{"restart in the last step", "begin ok ok restart ok", group.Ready, ready + ", +volume again"},
		{"restart when ready", "begin ok ok ok restart begin", group.Ready, ready},
		{"restart before a try", "begin ok fail restart wake ok ok", group.Ready, "+wait, +network, +network, +volume"},
		{"restart in a teardown", "begin ok ok ok stop down restart down", group.Over, ready + ", -volume, -network, -network"},
		{"restart before a teardown's try", "begin ok ok ok stop stuck restart wake down down", group.Over, ready + ", -volume, -volume, -network"},
		{"restart during a cancellation", "begin ok ok stop restart down down", group.Over, ready + ", cancel, -volume, -network"},
		{"restart when over", "begin bad restart begin stop", group.Over, "+wait"},

		{"stopped in the first step", "begin stop fail", group.Over, "+wait, cancel"},
		{"stopped in a step that succeeds all the same", "begin ok stop ok down", group.Over, "+wait, +network, cancel, -network"},
		{"stopped in a step that ends", "begin ok stop fail down", group.Over, "+wait, +network, cancel, -network"},
		{"stopped in a step that does not answer", "begin ok stop wake down", group.Over, "+wait, +network, cancel, cancel, -network"},
		{"stopped in a step without a limit that does not answer", "begin stop wake", group.Over, "+wait, cancel, cancel"},
		{"stopped before a try", "begin ok fail stop down", group.Over, "+wait, +network, -network"},

		{"an answer is lost", "begin ok wake wake ok ok", group.Ready, "+wait, +network, cancel, +network, +volume"},
		{"a step without a limit waits", "begin wake wake wake ok ok ok", group.Ready, ready},
		{"a teardown's answer is lost", "begin ok ok ok stop wake down down", group.Over, ready + ", -volume, -volume, -network"},
		{"a teardown that never works", "begin ok ok ok stop stuck wake stuck wake stuck wake stuck wake stuck down", group.Over,
			ready + ", -volume, -volume, -volume, -volume, -volume, -network"},
		{"a teardown that works at last, and another one", "begin ok ok ok stop stuck wake stuck wake stuck wake stuck wake down stuck wake down", group.Over,
			ready + ", -volume, -volume, -volume, -volume, -volume, -network, -network"},
		{"an abandoned teardown leaves the next one all its tries", "begin ok ok ok stop stuck wake stuck wake stuck wake stuck wake stuck stuck wake down", group.Over,
			ready + ", -volume, -volume, -volume, -volume, -volume, -network, -network"},
	} {
		r := newRig(t).do(c.words)
		if got := strings.Join(r.log, ", "); got != c.log || r.s.Phase != c.phase {
			t.Errorf("%s: %s after %q, want %s after %q", c.name, r.s.Phase, got, c.phase, c.log)
		}
	}
}

func TestAnswersOfEarlierTriesAndRepeatedOnesChangeNothing(t *testing.T) {
	r := newRig(t).do("begin ok")
	r.step(group.Prepared{Try: 1}, group.Failed{Try: 1, Retry: true}, group.TornDown{Try: 1}, group.TearDownFailed{Try: 1}, group.Prepared{Try: 7})
	if step := r.s.Current(); step == nil || step.Name != "network" || r.s.Phase != group.Preparing {
		t.Fatalf("%+v", r.s)
	}
	r.do("ok ok").step(group.Prepared{Try: 3}, group.Failed{Try: 3}, group.TornDown{Try: 3}, group.TearDownFailed{Try: 3}, group.Wake{})
	if r.s.Phase != group.Ready || len(r.log) != 3 {
		t.Errorf("%s after %v", r.s.Phase, r.log)
	}
	r.do("stop wake wake") // the first try of a teardown has had its time
	if before := r.s; r.s.Phase == group.TearDown {
		r.step(group.TornDown{Try: r.s.Try - 1}, group.TearDownFailed{Try: r.s.Try - 1}, group.Failed{Try: r.s.Try - 1})
		if !reflect.DeepEqual(r.s, before) {
			t.Errorf("%+v, want %+v", r.s, before)
		}
	} else {
		t.Errorf("%s after %v", r.s.Phase, r.log)
	}
}

func TestAWakeBeforeItsTimeOnlyAsksForAnotherOne(t *testing.T) {
	for _, words := range []string{"begin ok", "begin ok fail", "begin ok stop", "begin ok ok ok stop", "begin ok ok ok stop stuck"} {
		r := newRig(t).do(words)
		before, log := r.s, len(r.log)
		r.due = nil
		r.step(group.Wake{})
		if !reflect.DeepEqual(r.s, before) || len(r.log) != log || len(r.due) != 1 || !r.due[0].After(r.now) {
			t.Errorf("%s: %+v after %v, and a wake-up at %v", words, r.s, r.log, r.due)
		}
	}
}

func TestItIsDecidedWhetherTasksMayRunOnceTheGroupWasReadyOrHasFailed(t *testing.T) {
	for words, want := range map[string]bool{"": false, "begin": false, "begin ok fail": false, "begin stop": false, "begin ok ok ok": true, "begin ok ok ok stop": true, "begin bad": true} {
		if r := newRig(t).do(words); r.s.Decided() != want {
			t.Errorf("%q: decided is %v", words, !want)
		}
	}
}

func TestAGroupWithoutStepsIsReadyAndOverAtOnce(t *testing.T) {
	s, effects := group.Step(policy, group.New(nil), group.Begin{}, start)
	if s.Phase != group.Ready || len(effects) != 0 || !s.WasReady {
		t.Errorf("%+v %v", s, effects)
	}
	if s, effects = group.Step(policy, s, group.Stop{}, start); s.Phase != group.Over || len(effects) != 0 {
		t.Errorf("%+v %v", s, effects)
	}
}

func TestAStepSaysWhoDoesItUntilWhenAndWhatFailedLast(t *testing.T) {
	r := newRig(t).do("begin ok")
	want := group.StepState{StepSpec: steps[1], Status: group.StepPreparing, Since: start, Deadline: start.Add(time.Minute)}
	if got := *r.s.Current(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r.do("fail")
	if got := r.s.Current(); got.LastError != "no luck" || !r.s.WakeAt.Equal(start.Add(10*time.Second)) {
		t.Errorf("%+v, next try at %s", got, r.s.WakeAt)
	}
	r.do("wake")
	if !r.s.WakeAt.IsZero() {
		t.Errorf("a step that is tried waits until %s", r.s.WakeAt)
	}
	r.do("bad")
	if want := `step "network" of the group failed: never`; r.s.Failure != want {
		t.Errorf("%q, want %q", r.s.Failure, want)
	}
	r = newRig(t).do("begin ok ok ok stop")
	for range 5 {
		r.do("stuck wake")
	}
	if got := r.s.Steps[2]; got.Status != group.StepAbandoned || got.LastError != "busy" {
		t.Errorf("%+v", got)
	}
}

// A volume is an example: as soon as the alloc has ended, the servers give it to others.
func TestAGroupDoesNotEndBeforeAStepThatInsistsIsTornDown(t *testing.T) {
	r := newRig(t)
	r.s.Steps[2].Insists = true
	r.do("begin ok ok ok stop")
	for range 100 {
		r.do("stuck")
		if at := r.s.WakeAt.Sub(r.now); r.s.Phase != group.Lingering || at <= 0 || at > time.Minute {
			t.Fatalf("%s, next try in %s", r.s.Phase, at)
		}
		r.do("restart wake")
	}
	if got := *r.s.Current(); got.Name != "volume" || got.LastError != "busy" {
		t.Errorf("%+v", got)
	}
	r.do("down down")
	if r.s.Phase != group.Over || r.s.Steps[2].Status != group.StepTornDown {
		t.Errorf("%+v", r.s)
	}
}

// Whatever happens, in whatever order and with restarts, a step is prepared only after
// those before it, is torn down only after those behind it, and every group that is
// stopped ends once its steps answer.
func TestAnyOrderOfEventsKeepsTheOrderOfTheSteps(t *testing.T) {
	words := []string{"begin", "ok", "fail", "bad", "down", "stuck", "stop", "wake", "restart"}
	var walk func(path string, depth int)
	walk = func(path string, depth int) { // a few thousand paths
		r := newRig(t).do(path)
		checkOrder(t, path, r.s)
		r.do("stop")
		for range 20 {
			r.do("ok down wake")
		}
		if r.s.Phase != group.Over {
			t.Fatalf("after %q the group never ends: %+v", path, r.s)
		}
		if depth == 0 {
			return
		}
		for _, w := range words {
			walk(path+" "+w, depth-1)
		}
	}
	walk("begin", 3)
	walk("begin ok ok", 3)
	walk("begin ok ok ok stop", 3)
}

func checkOrder(t *testing.T, path string, s group.State) {
	t.Helper()
	for i := 1; i < len(s.Steps); i++ {
		before, step := s.Steps[i-1], s.Steps[i]
		if step.Status != group.StepPending && (before.Status == group.StepPending || before.Status == group.StepPreparing) {
			t.Fatalf("after %q %s is %q while %s is %q", path, step.Name, step.Status, before.Name, before.Status)
		}
		if before.Status == group.StepTornDown && (step.Status == group.StepPrepared || step.Status == group.StepPreparing) {
			t.Fatalf("after %q %s is torn down before %s", path, before.Name, step.Name)
		}
	}
	if s.Phase == group.Ready && s.Steps[len(s.Steps)-1].Status != group.StepPrepared {
		t.Fatalf("after %q the group is ready without all of its steps: %+v", path, s)
	}
}

func TestTheDiagramInTheDocsIsTheTableOfTransitions(t *testing.T) {
	const file = "../../../docs/design/task-states.md"
	const begins, ends = "<!-- generated by `make docs` from core/agent/group -->\n```mermaid\n", "```\n<!-- end of the generated diagram -->\n"
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(body), begins)
	_, after, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		t.Fatalf("%s has no place for the diagram", file)
	}
	want := before + begins + group.Diagram() + ends + after
	if string(body) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the table of transitions says: run make docs", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Println("written:", file)
}
