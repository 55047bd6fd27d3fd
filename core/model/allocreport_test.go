// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// reporter is a node with one alloc, of which everything may change.
type reporter struct {
	rng  *rand.Rand
	now  *model.Allocation
	seen int64
}

func (n *reporter) happen() {
	n.seen++
	at := time.Unix(0, n.seen).UTC()
	a := n.now.Copy()
	name := []string{"x", "y"}[n.rng.IntN(2)]
	s := model.TaskState{}
	if old := a.TaskStates[name]; old != nil {
		s = *old
	}
	s.State = []string{"pending", "running", "dead"}[n.rng.IntN(3)]
	s.Failed = n.rng.IntN(4) == 0
	switch n.rng.IntN(4) {
	case 0:
		s.StartedAt = &at
	case 1:
		s.FinishedAt = &at
	case 2:
		s.FinishedAt = nil
	}
	s.Restarts += n.rng.Uint64N(2)
	e := &model.TaskEvent{Type: []string{"A", "B"}[n.rng.IntN(2)], Time: n.seen, DisplayMessage: fmt.Sprint(n.seen)}
	s.Events = append(slices.Clone(s.Events), e)
	s.Events = s.Events[max(0, len(s.Events)-model.MaxTaskEvents):]
	s.LastEvent++
	if a.TaskStates == nil {
		a.TaskStates = map[string]*model.TaskState{}
	}
	a.TaskStates[name] = &s
	a.ClientStatus = []string{"pending", "running"}[n.rng.IntN(2)]
	a.ClientDescription = "is " + a.ClientStatus
	if n.rng.IntN(5) == 0 {
		a.NetworkStatus = &model.AllocNetworkStatus{Address: fmt.Sprint("10.0.0.", n.rng.IntN(9))}
		if n.seen%2 == 0 {
			a.NetworkStatus.Drivers = map[string]*model.DriverNetwork{"x": {IP: "10.0.1.1", PortMap: map[string]int{"http": int(n.seen % 5)}}}
		}
	}
	n.now = a
}

func reported(a *model.Allocation) *model.Allocation {
	return &model.Allocation{ID: a.ID, ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription, TaskStates: a.TaskStates, NetworkStatus: a.NetworkStatus}
}

// Whatever is lost, repeated, late or forgotten on the way, servers and node agree
// once a report has been taken and nothing new has happened.
func TestServersAndNodeAgreeWhateverIsLostRepeatedOrForgotten(t *testing.T) {
	for seed := uint64(400); seed < 900; seed++ {
		rng := rand.New(rand.NewPCG(seed, 9))
		node := &reporter{rng: rng, now: &model.Allocation{ID: "a", ClientStatus: "pending", TaskStates: map[string]*model.TaskState{
			"x": {State: "pending"}, "y": {State: "pending"}, // a node names all tasks from the beginning
		}, NetworkStatus: &model.AllocNetworkStatus{Address: "10.0.0.1"}}} // and does not report that a network is gone
		server := &model.Allocation{ID: "a", ClientStatus: "pending"}
		old, oldNode := server, node.now
		var acked *model.Allocation
		told := server.ReportDigest() // what the servers knew when the session began
		var late []*model.AllocReport
		lost := false // the node has lost its history
		take := func(r *model.AllocReport) (missing bool) {
			news, missing := server.News(r)
			if news != nil {
				server = server.WithNews(news)
				if again, _ := server.News(news); again != nil {
					t.Fatalf("seed %d: what was taken is news again: %+v", seed, again)
				}
			}
			return missing
		}
		for range 60 {
			for range rng.IntN(14) {
				node.happen()
			}
			switch rng.IntN(12) {
			case 0: // the agent starts again and does not know what was acknowledged
				acked, told = nil, server.ReportDigest()
			case 1: // the servers are restored from an older snapshot
				old, server = server, old
				if lost { // what they know may be of a history that is no more: the session tells
					acked, late, told = nil, nil, server.ReportDigest()
				}
			case 2: // the node lost what it knew, and begins anew from there
				oldNode, node.now = node.now, oldNode
				acked, late, lost, told = nil, nil, true, server.ReportDigest()
			}
			r := node.now.ReportSince(acked)
			if r == nil {
				continue
			}
			if acked == nil {
				r.Replaces = told
			}
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			late = append(late, r)
			switch rng.IntN(4) {
			case 0: // lost
			case 1: // taken, the answer is lost
				take(r)
			default:
				if take(r) {
					r = node.now.ReportSince(nil)
					if take(r) {
						t.Fatalf("seed %d: a whole report lacks something", seed)
					}
				}
				take(r)
				acked = node.now
			}
			// An old report of the present history comes once more. One that replaces just what
			// the servers know takes away events of a history that is no more.
			if last := late[rng.IntN(len(late))]; last.Replaces != server.ReportDigest() && !slices.ContainsFunc([]string{"x", "y"}, func(n string) bool { return last.Tasks[n] != nil && last.Tasks[n].Whole }) {
				before := server
				take(last)
				if server.TaskStates["x"] != nil && before.TaskStates["x"] != nil && server.TaskStates["x"].LastEvent < before.TaskStates["x"].LastEvent {
					t.Fatalf("seed %d: a late report took events away", seed)
				}
			}
		}
		acked = nil // a session begins
		if server.ReportDigest() != node.now.ReportDigest() {
			if r := node.now.ReportSince(acked); r != nil {
				r.Replaces = server.ReportDigest()
				take(r)
			}
		}
		if d := cmp.Diff(reported(node.now), reported(server)); d != "" {
			t.Fatalf("seed %d: node and servers differ:\n%s", seed, d)
		}
		if server.ReportDigest() != node.now.ReportDigest() {
			t.Fatalf("seed %d: equal states have different digests", seed)
		}
	}
}

func event(typ string, at int64) *model.TaskEvent { return &model.TaskEvent{Type: typ, Time: at} }

func TestAReportThatBuildsOnUnknownEventsIsWantedWhole(t *testing.T) {
	known := &model.Allocation{ID: "a", ClientStatus: "running", TaskStates: map[string]*model.TaskState{
		"t": {State: "running", LastEvent: 3, Events: []*model.TaskEvent{event("A", 1), event("B", 2), event("C", 3)}},
	}}
	r := &model.AllocReport{ID: "a", ClientStatus: "running", Tasks: map[string]*model.TaskReport{
		"t": {State: "running", Before: 4, Events: []*model.TaskEvent{event("E", 5)}},
	}}
	if news, missing := known.News(r); news != nil || !missing {
		t.Errorf("news %+v, missing %v", news, missing)
	}
	r.Tasks["t"].Whole = true
	news, missing := known.News(r)
	if missing || !news.Tasks["t"].Whole {
		t.Fatalf("news %+v, missing %v", news, missing)
	}
	if got := known.WithNews(news).TaskStates["t"]; got.LastEvent != 5 || len(got.Events) != 1 {
		t.Errorf("took %+v", got)
	}
}

func TestTheLogHoldsOnlyWhatIsNew(t *testing.T) {
	known := &model.Allocation{ID: "a", ClientStatus: "running", ClientDescription: "Tasks are running", TaskStates: map[string]*model.TaskState{
		"t": {State: "running", LastEvent: 2, Events: []*model.TaskEvent{event("A", 1), event("B", 2)}},
		"u": {State: "running", LastEvent: 1, Events: []*model.TaskEvent{event("A", 1)}},
	}}
	now := known.Copy()
	now.TaskStates["t"].Events = append(slices.Clone(now.TaskStates["t"].Events), event("C", 3))
	now.TaskStates["t"].LastEvent = 3
	news, _ := known.News(now.ReportSince(nil)) // as an agent says it that has just started
	if news == nil || news.ClientStatus != "" || len(news.Tasks) != 1 || len(news.Tasks["t"].Events) != 1 || news.Tasks["t"].Before != 2 {
		t.Fatalf("news %+v", news)
	}
	if news, _ := known.News(known.ReportSince(nil)); news != nil {
		t.Errorf("a repeated report is news: %+v", news)
	}
}

func TestAnEndedAllocNeverLivesAgain(t *testing.T) {
	for _, status := range []string{"complete", "failed", "lost"} {
		known := &model.Allocation{ID: "a", ClientStatus: status}
		if news, _ := known.News(&model.AllocReport{ID: "a", ClientStatus: "running"}); news != nil {
			t.Errorf("%s: %+v", status, news)
		}
	}
	lost := &model.Allocation{ID: "a", ClientStatus: "lost"}
	if news, _ := lost.News(&model.AllocReport{ID: "a", ClientStatus: "complete"}); news == nil {
		t.Error("the end of a lost alloc is no news")
	}
}

func TestAVerdictHoldsForItsDeploymentAndIsGivenOnce(t *testing.T) {
	yes := true
	known := &model.Allocation{ID: "a", ClientStatus: "running", DeploymentID: "new"}
	of := func(deployment string) *model.AllocReport {
		return &model.AllocReport{ID: "a", ClientStatus: "running", Health: &model.HealthReport{DeploymentID: deployment, Healthy: false}}
	}
	if news, _ := known.News(of("old")); news != nil {
		t.Errorf("a verdict on an earlier deployment counts: %+v", news)
	}
	if news, _ := known.News(of("new")); news == nil {
		t.Error("the verdict is lost")
	}
	known.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &yes}
	if news, _ := known.News(of("new")); news != nil {
		t.Errorf("the node overrules what is decided: %+v", news)
	}
}

func TestAReportThatNoNodeOfOursSendsIsRefused(t *testing.T) {
	good := func() *model.AllocReport {
		return &model.AllocReport{ID: "a1", ClientStatus: "running", Tasks: map[string]*model.TaskReport{"t": {State: "running"}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	cases := map[string]*model.AllocReport{"nil": nil}
	for name, change := range map[string]func(*model.AllocReport){
		"no id":           func(r *model.AllocReport) { r.ID = "" },
		"an oversized id": func(r *model.AllocReport) { r.ID = strings.Repeat("a", 65) },
		"a malformed id":  func(r *model.AllocReport) { r.ID = "a/b" },
		"lost":            func(r *model.AllocReport) { r.ClientStatus = "lost" },
		"no status":       func(r *model.AllocReport) { r.ClientStatus = "" },
		"a nil task":      func(r *model.AllocReport) { r.Tasks["t"] = nil },
		"a task state":    func(r *model.AllocReport) { r.Tasks["t"].State = "bored" },
		"a nil event":     func(r *model.AllocReport) { r.Tasks["t"].Events = []*model.TaskEvent{nil} },
		"many events":     func(r *model.AllocReport) { r.Tasks["t"].Events = make([]*model.TaskEvent, 11) },
		"a far count":     func(r *model.AllocReport) { r.Tasks["t"].Before = math.MaxUint64 },
	} {
		r := good()
		change(r)
		cases[name] = r
	}
	for name, r := range cases {
		if err := r.Validate(); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheNetworkOfADriverBelongsToWhatServersAndNodeAgreeOn(t *testing.T) {
	with := func(n *model.DriverNetwork) uint64 {
		a := &model.Allocation{NetworkStatus: &model.AllocNetworkStatus{Address: "10.0.0.1"}}
		if n != nil {
			a.NetworkStatus.Drivers = map[string]*model.DriverNetwork{"web": n}
		}
		return a.ReportDigest()
	}
	seen := map[uint64]string{}
	for name, n := range map[string]*model.DriverNetwork{
		"none": nil, "one": {IP: "172.17.0.2"}, "another": {IP: "172.17.0.3"}, "with a port": {IP: "172.17.0.2", PortMap: map[string]int{"http": 80}},
		"with another port": {IP: "172.17.0.2", PortMap: map[string]int{"http": 81}}, "advertised": {IP: "172.17.0.2", AutoAdvertise: true},
	} {
		if other, taken := seen[with(n)]; taken {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[with(n)] = name
	}
}

// The disk of a node was put back: the node knows fewer events than the servers.
func TestAReportThatReplacesWhatServersKnowIsTakenThoughItIsOlder(t *testing.T) {
	known := &model.Allocation{ID: "a", ClientStatus: "running", TaskStates: map[string]*model.TaskState{
		"t": {State: "running", Restarts: 2, LastEvent: 3, Events: []*model.TaskEvent{event("A", 1), event("B", 2), event("C", 3)}},
	}}
	now := &model.Allocation{ID: "a", ClientStatus: "running", TaskStates: map[string]*model.TaskState{
		"t": {State: "dead", Failed: true, LastEvent: 1, Events: []*model.TaskEvent{event("D", 9)}},
	}}
	r := now.ReportSince(nil)
	if news, _ := known.News(r); news != nil {
		t.Errorf("a report that may be late is news: %+v", news)
	}
	r.Replaces = known.ReportDigest()
	news, missing := known.News(r)
	if news == nil || missing || news.Replaces != 0 {
		t.Fatalf("news %+v, missing %v", news, missing)
	}
	after := known.WithNews(news)
	if after.ReportDigest() != now.ReportDigest() {
		t.Errorf("servers know %+v", after.TaskStates["t"])
	}
	after = after.WithNews(&model.AllocReport{Tasks: map[string]*model.TaskReport{"t": {State: "dead", Before: 1, Events: []*model.TaskEvent{event("E", 10)}}}})
	if news, _ := after.News(r); news != nil { // it comes once more
		t.Errorf("a late report replaces what came after it: %+v", news)
	}
}
