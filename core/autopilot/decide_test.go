// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package autopilot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/autopilot"
	"github.com/drover-project/drover/core/model"
)

var now = time.Unix(1_800_000_000, 0)

// scene has the voters a (the leader), b and c, all alive and healthy.
func scene() autopilot.Scene {
	s := autopilot.Scene{Now: now, Self: "a", LastIndex: 1000, Term: 7, Reports: map[string]autopilot.Report{}, StableSince: map[string]time.Time{}}
	for _, id := range []string{"a", "b", "c"} {
		s = with(s, id, true, true)
	}
	return s
}

// with adds a server that is healthy for a minute; as a member if peer.
func with(s autopilot.Scene, id string, peer, voter bool) autopilot.Scene {
	if peer {
		s.Peers = append(s.Peers, autopilot.Peer{ID: id, Address: id + ":4647", Voter: voter})
	}
	s.Found = append(s.Found, autopilot.Found{ID: id, Name: id + ".global", Address: id + ":4647", Alive: true})
	s.Reports[id] = autopilot.Report{LastIndex: 1000, LastTerm: 7, At: now}
	s.StableSince[id] = now.Add(-time.Minute)
	return s
}

// change edits the server with an id in gossip.
func change(s autopilot.Scene, id string, edit func(*autopilot.Found)) autopilot.Scene {
	for i := range s.Found {
		if s.Found[i].ID == id {
			edit(&s.Found[i])
		}
	}
	return s
}

func failed(f *autopilot.Found) { f.Alive = false }
func gone(f *autopilot.Found)   { f.Alive, f.Left = false, true }

func TestWhatAutopilotDecides(t *testing.T) {
	for name, c := range map[string]struct {
		scene autopilot.Scene
		want  string
	}{
		"all is well":                               {scene(), ""},
		"a new server joins without a vote":         {with(scene(), "d", false, false), "add d"},
		"it votes when it has kept up":              {with(scene(), "d", true, false), "promote d"},
		"a server that has left is removed":         {change(scene(), "c", gone), "remove c"},
		"the leader does not remove itself":         {change(scene(), "a", gone), ""},
		"one of three that fails stays":             {change(scene(), "c", failed), ""},
		"it is removed when another votes":          {change(with(scene(), "d", true, true), "c", failed), "remove c"},
		"two of four that fail stay":                {change(change(with(scene(), "d", true, true), "c", failed), "b", failed), ""},
		"a failed server without a vote is removed": {change(with(scene(), "d", true, false), "d", failed), "remove d"},
		"a server that nobody knows stays": {func() autopilot.Scene {
			s := scene()
			s.Found = s.Found[:2]
			return s
		}(), ""},
		"a server that gossips and refuses the leader": {change(with(scene(), "d", false, false), "d", func(f *autopilot.Found) { f.OutOfReach = true }), ""},
		"a new address":                  {change(scene(), "c", func(f *autopilot.Found) { f.Address = "z:4647" }), "move c"},
		"a new id at an address":         {change(with(change(scene(), "c", failed), "d", false, false), "d", func(f *autopilot.Found) { f.Address = "c:4647" }), "remove c"},
		"an address of an alive server":  {change(with(scene(), "d", false, false), "d", func(f *autopilot.Found) { f.Address = "c:4647" }), ""},
		"an id that two servers have":    {with(with(scene(), "d", false, false), "d", false, false), ""},
		"an id that comes back renamed":  {func() autopilot.Scene { s := change(scene(), "c", gone); return with(s, "c", false, true) }(), ""},
		"a server that has just arrived": {func() autopilot.Scene { s := with(scene(), "d", true, false); s.StableSince["d"] = now; return s }(), ""},
		"one that lags behind": {func() autopilot.Scene {
			s := with(scene(), "d", true, false)
			s.Reports["d"] = autopilot.Report{LastIndex: 749, LastTerm: 7, At: now}
			return s
		}(), ""},
		"one of an older term": {func() autopilot.Scene {
			s := with(scene(), "d", true, false)
			s.Reports["d"] = autopilot.Report{LastIndex: 1000, LastTerm: 6, At: now}
			return s
		}(), ""},
		"one that was not heard of lately": {func() autopilot.Scene {
			s := with(scene(), "d", true, false)
			s.Reports["d"] = autopilot.Report{LastIndex: 1000, LastTerm: 7, At: now.Add(-time.Minute)}
			return s
		}(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if step := autopilot.Decide(c.scene, model.DefaultAutopilot()); step != nil {
				got = fmt.Sprintf("%s %s", step.Verb, step.ID)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAServerThatHeardItsLeaderLateOnceIsHealthyAndOneThatDidSoTwiceIsNot(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what              string
		beat              time.Duration
		earlier, last     time.Duration
		healthy, promotes bool
	}{
		{"as always", 80 * ms, 60 * ms, 70 * ms, true, true},
		{"late in the last report only", 80 * ms, 60 * ms, 900 * ms, true, true},
		{"late in the report before only", 80 * ms, 900 * ms, 60 * ms, true, true},
		{"late in two reports", 80 * ms, 300 * ms, 900 * ms, false, false},
		{"late in its only report", 80 * ms, 0, 900 * ms, false, false},
		{"pauses of a large raft_multiplier", 800 * ms, 900 * ms, 900 * ms, true, true},
		{"too late also for those", 800 * ms, 1700 * ms, 1700 * ms, false, false},
	} {
		s := with(scene(), "d", true, false)
		s.Beat = c.beat
		s.Reports["d"] = autopilot.Report{LastIndex: 1000, LastTerm: 7, LastContact: c.last, Earlier: c.earlier, At: now}
		if got := s.Healthy(model.DefaultAutopilot(), "d"); got != c.healthy {
			t.Errorf("%s: healthy is %t", c.what, got)
		}
		if got := autopilot.Decide(s, model.DefaultAutopilot()) != nil; got != c.promotes {
			t.Errorf("%s: it gets a vote: %t", c.what, got)
		}
	}
}

func TestAServerThatNoLongerAnswersHasNotHeardFromItsLeaderSince(t *testing.T) {
	at := time.Unix(1000, 0)
	s := autopilot.Scene{Reports: map[string]autopilot.Report{"a": {LastContact: 40 * time.Millisecond, At: at}}}
	for age, want := range map[time.Duration]time.Duration{time.Second: 40 * time.Millisecond, 30 * time.Second: 30040 * time.Millisecond} {
		s.Now = at.Add(age)
		if got := s.LastContact("a"); got != want {
			t.Errorf("%s after its report: %s, want %s", age, got, want)
		}
	}
	if got := s.LastContact("unknown"); got != 0 {
		t.Errorf("a server without a report: %s", got)
	}
}
