// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package autopilot_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/autopilot"
	"github.com/drover-project/drover/core/model"
)

// parse makes a scene of texts such as "a* leader zone=x", where * is a vote: the words
// are leader, dead, slow (not healthy), fresh (not stable yet), replica, zone=Z and v=VERSION.
func parse(servers ...string) autopilot.Scene {
	s := autopilot.Scene{Now: now, LastIndex: 1000, Term: 7, Reports: map[string]autopilot.Report{}, StableSince: map[string]time.Time{}}
	for _, text := range servers {
		words := strings.Fields(text)
		id, voter := strings.CutSuffix(words[0], "*")
		s = with(s, id, true, voter)
		f := &s.Found[len(s.Found)-1]
		f.Release = "1.0.0"
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "leader":
				s.Self = id
			case "dead":
				f.Alive = false
				delete(s.StableSince, id)
			case "slow":
				s.Reports[id] = autopilot.Report{LastIndex: 1000, LastTerm: 7, LastContact: time.Minute, At: now}
				delete(s.StableSince, id)
			case "fresh":
				s.StableSince[id] = now
			case "replica":
				f.Replica = true
			case "zone":
				f.Zone = value
			case "v":
				f.Release = value
			}
		}
	}
	return s
}

// play carries out steps until there are none, and returns them and who votes at the end.
func play(s autopilot.Scene, c *model.AutopilotConfiguration) (steps []string, end autopilot.Scene) {
	for len(steps) < 60 {
		step := autopilot.Decide(s, c)
		if step == nil {
			return steps, s
		}
		s = carryOut(s, step)
		steps = append(steps, fmt.Sprintf("%s %s", step.Verb, step.ID))
	}
	return append(steps, "without end"), s
}

func carryOut(s autopilot.Scene, step *autopilot.Step) autopilot.Scene {
	var peers []autopilot.Peer
	for _, p := range s.Peers {
		switch {
		case p.ID != step.ID:
		case step.Verb == autopilot.Remove:
			continue
		case step.Verb == autopilot.Promote, step.Verb == autopilot.Demote:
			p.Voter = step.Verb == autopilot.Promote
		case step.Verb == autopilot.Move:
			p.Address = step.Address
		case step.Verb == autopilot.HandOver:
			s.Self = step.ID
		}
		peers = append(peers, p)
	}
	if step.Verb == autopilot.Add {
		peers = append(peers, autopilot.Peer{ID: step.ID, Address: step.Address})
	}
	s.Peers = peers
	return s
}

func zones() *model.AutopilotConfiguration {
	c := model.DefaultAutopilot()
	c.EnableRedundancyZones = true
	return c
}

func TestWhoVotes(t *testing.T) {
	with := func(edit func(*model.AutopilotConfiguration)) *model.AutopilotConfiguration {
		c := model.DefaultAutopilot()
		edit(c)
		return c
	}
	plain := model.DefaultAutopilot()
	for name, c := range map[string]struct {
		config *model.AutopilotConfiguration
		scene  autopilot.Scene
		want   string // the steps
	}{
		"a read replica never votes":                                {plain, parse("a* leader", "b*", "c*", "d replica"), ""},
		"a voter that has become a replica loses its vote":          {plain, parse("a* leader", "b*", "c*", "d* replica"), "demote d"},
		"a leader that has become a replica hands over first":       {plain, parse("a* leader replica", "b*", "c*", "d*"), "hand over b, demote a"},
		"the last alive voter keeps its vote, replica or not":       {plain, parse("a* leader", "b* replica dead", "c* dead"), ""},
		"the standby of a zone stands by":                           {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z", "d zone=z"), ""},
		"without the rule of zones all vote":                        {plain, parse("a* leader zone=x", "b* zone=y", "c* zone=z", "d zone=z"), "promote d"},
		"it votes when the voter of its zone fails":                 {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z dead", "d zone=z"), "promote d, remove c"},
		"a voter that is slow for a moment keeps its vote":          {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z slow", "d zone=z"), ""},
		"a fresh standby waits until it is stable":                  {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z dead", "d zone=z fresh"), ""},
		"a new zone gets a vote, and the second one of a zone goes": {zones(), parse("a* leader zone=x", "b* zone=x", "c* zone=y", "d zone=z"), "promote d, demote b"},
		"two zones have three votes":                                {zones(), parse("a* leader zone=x", "b* zone=x", "c* zone=y", "d zone=y"), ""},
		"a zone without a standby is replaced by another zone":      {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z dead", "d zone=x"), "promote d, remove c"},
		"a server without a zone votes":                             {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z", "d"), "promote d"},
		"the leader of a zone keeps its vote":                       {zones(), parse("a* zone=x", "b* leader zone=x", "c* zone=y", "d* zone=z"), "demote a"},
		"one newer server waits":                                    {plain, parse("a* leader", "b*", "c*", "d v=1.1.0"), ""},
		"two wait":                                                  {plain, parse("a* leader", "b*", "c*", "d v=1.1.0", "e v=1.1.0"), ""},
		"one that is fresh does not count":                          {plain, parse("a* leader", "b*", "c*", "d v=1.1.0", "e v=1.1.0", "f v=1.1.0 fresh"), ""},
		"three take over, and the leader goes last": {plain, parse("a* leader", "b*", "c*", "d v=1.1.0", "e v=1.1.0", "f v=1.1.0"),
			"promote d, promote e, promote f, demote b, demote c, hand over d, demote a"},
		"1.10 is newer than 1.9":                              {plain, parse("a* leader v=1.9.0", "b* v=1.9.0", "c* v=1.9.0", "d v=1.10.0", "e v=1.10.0"), ""},
		"migration can be turned off":                         {with(func(c *model.AutopilotConfiguration) { c.DisableUpgradeMigration = true }), parse("a* leader", "b*", "c*", "d v=1.1.0"), "promote d"},
		"an upgrade in place costs no vote":                   {plain, parse("a* leader", "b* v=1.1.0", "c* v=1.1.0"), ""},
		"an upgrade of five in place costs no vote":           {plain, parse("a* leader", "b*", "c* v=1.1.0", "d* v=1.1.0", "e* v=1.1.0"), ""},
		"a cluster of two lets a newer server vote":           {plain, parse("a* leader", "b*", "c v=1.1.0"), "promote c"},
		"after one of the newer fails an older one helps out": {plain, parse("a", "d* v=1.1.0 leader", "e* v=1.1.0", "f* v=1.1.0 dead"), "promote a, remove f"},
		"zones migrate one by one": {zones(), parse("a* leader zone=x", "b* zone=y", "c* zone=z", "d zone=x v=2", "e zone=y v=2", "f zone=z v=2"),
			"promote d, promote e, promote f, demote b, demote c, hand over d, demote a"},
		"min_quorum keeps a failed server": {with(func(c *model.AutopilotConfiguration) { c.MinQuorum = 5 }), parse("a* leader", "b*", "c*", "d*", "e* dead"), ""},
		"a min_quorum of two lets it go":   {with(func(c *model.AutopilotConfiguration) { c.MinQuorum = 2 }), parse("a* leader", "b*", "c* dead"), "remove c"},
		"dead servers may stay":            {with(func(c *model.AutopilotConfiguration) { c.CleanupDeadServers = false }), parse("a* leader", "b*", "c*", "d*", "e* dead"), ""},
		"custom versions count if they are turned on": {with(func(c *model.AutopilotConfiguration) { c.EnableCustomUpgrades = true }), func() autopilot.Scene {
			s := parse("a* leader v=9", "b* v=9", "c* v=9", "d", "e", "f")
			for i := range s.Found {
				s.Found[i].Upgrade = "1"
			}
			for i := range s.Found[3:] {
				s.Found[3+i].Upgrade = "2"
			}
			return s
		}(), "promote d, promote e, promote f, demote b, demote c, hand over d, demote a"},
		"a hand-over that has failed is not tried at once": {plain, func() autopilot.Scene {
			s := parse("a* leader replica", "b*", "c*", "d*")
			s.HandedOver = now.Add(-time.Second)
			return s
		}(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _ := play(c.scene, c.config)
			if got := strings.Join(steps, ", "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTheLeadGoesOnlyToAHealthyVoter(t *testing.T) {
	c := model.DefaultAutopilot()
	for want, s := range map[string]autopilot.Scene{
		"":  parse("a* leader", "b* dead", "c* slow", "d", "e* replica"),
		"c": parse("a* leader", "b* slow", "c*", "d* dead"),
		"d": parse("a* leader", "b*", "c*", "d* v=1.1.0"),
	} {
		if got := autopilot.Successor(s, c, nil); got != want {
			t.Errorf("%q, want %q of %+v", got, want, s.Peers)
		}
	}
	s := parse("a* leader", "b*", "c*")
	s.Reports["c"] = autopilot.Report{LastIndex: 1001, LastTerm: 7, At: now}
	if got := autopilot.Successor(s, c, nil); got != "c" {
		t.Errorf("%q, and c has the longest log", got)
	}
	if got := autopilot.Successor(s, c, func(id string) bool { return id != "c" }); got != "b" {
		t.Errorf("%q, and only b is wanted", got)
	}
}

// random returns a cluster in which anything may be: failed, slow, new and moved servers,
// zones, replicas and versions, also as they are while something changes.
func random(r *rand.Rand) (autopilot.Scene, *model.AutopilotConfiguration) {
	c := model.DefaultAutopilot()
	c.EnableRedundancyZones, c.DisableUpgradeMigration, c.CleanupDeadServers = r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4) > 0
	c.MinQuorum = []uint64{0, 0, 0, 1, 2, 5}[r.IntN(6)]
	texts := []string{"a* leader zone=x"}
	for i := range r.IntN(9) {
		text := string(rune('b' + i))
		if r.IntN(100) < 60 {
			text += "*"
		}
		for _, w := range []struct {
			word string
			odds int
		}{{"dead", 15}, {"slow", 15}, {"fresh", 10}, {"replica", 10}, {"v=1.1.0", 40}, {"v=1.2.0", 10}} {
			if r.IntN(100) < w.odds {
				text += " " + w.word
			}
		}
		if z := r.IntN(5); z < 4 {
			text += " zone=" + string("xyzw"[z])
		}
		texts = append(texts, text)
	}
	s := parse(texts...)
	for range r.IntN(2) { // one that is no member yet
		s.Peers = s.Peers[:max(1, len(s.Peers)-1)]
	}
	return s, c
}

// counts returns the voters, and the alive and the healthy ones of them.
func counts(s autopilot.Scene, c *model.AutopilotConfiguration) (all, alive, healthy int) {
	for _, p := range s.Peers {
		if !p.Voter {
			continue
		}
		all++
		if i := slices.IndexFunc(s.Found, func(f autopilot.Found) bool { return f.ID == p.ID }); s.Found[i].Alive {
			alive++
		}
		if s.Healthy(c, p.ID) {
			healthy++
		}
	}
	return all, alive, healthy
}

// TestWhateverTheClusterIsTheStepsEndAndCostNothing is the rule of autopilot: for any cluster
// the steps end, each changes one thing, the leader neither loses its vote nor goes, a
// majority of alive voters stays one, no healthy vote is taken while fewer than Needed
// would stay, and nobody is given a vote that is taken again.
func TestWhateverTheClusterIsTheStepsEndAndCostNothing(t *testing.T) {
	taken, given, handed := 0, 0, 0
	for seed := range uint64(20000) {
		s, c := random(rand.New(rand.NewPCG(seed, 1)))
		changes := map[string][]autopilot.Verb{}
		for steps := 0; ; steps++ {
			step := autopilot.Decide(s, c)
			if step == nil {
				break
			}
			if steps > 60 {
				t.Fatalf("seed %d: the steps do not end: %v", seed, changes)
			}
			all, alive, _ := counts(s, c)
			replica := slices.ContainsFunc(s.Found, func(f autopilot.Found) bool { return f.ID == step.ID && f.Replica })
			before, old := s.Peers, s.Self
			s = carryOut(s, step)
			nowAll, nowAlive, nowHealthy := counts(s, c)
			fail := func(why string) {
				t.Fatalf("seed %d: %+v %s\nof %+v\n%+v\n%+v", seed, step, why, before, s.Found, c)
			}
			switch step.Verb {
			case autopilot.Promote:
				given++
				if replica {
					fail("gives a replica a vote")
				}
			case autopilot.Demote:
				taken++
				if nowHealthy < c.Needed() && !replica {
					fail("takes a vote that is needed")
				}
			case autopilot.HandOver:
				handed++
				if !s.Healthy(c, step.ID) || replica {
					fail("hands over to a server that cannot lead")
				}
			}
			if step.Verb != autopilot.HandOver && (step.ID == old) {
				fail("changes the leader")
			}
			if alive*2 > all && nowAlive*2 <= nowAll {
				fail("costs the majority")
			}
			changes[step.ID] = append(changes[step.ID], step.Verb)
			if v := changes[step.ID]; slices.Contains(v, autopilot.Promote) && slices.Contains(v, autopilot.Demote) {
				fail("gives a vote and takes it again")
			}
		}
		if step := autopilot.Decide(later(s), c); step != nil && step.Verb != autopilot.Promote && step.Verb != autopilot.HandOver {
			t.Fatalf("seed %d: there is more to do later: %+v", seed, step)
		}
		checkEnd(t, seed, s, c)
	}
	if taken < 1000 || given < 1000 || handed < 100 {
		t.Errorf("%d votes taken, %d given, %d hand-overs: the clusters are too simple", taken, given, handed)
	}
}

// later is the same cluster when the hour is over and all reports are new.
func later(s autopilot.Scene) autopilot.Scene {
	s.Now = s.Now.Add(time.Second)
	s.Reports = maps.Clone(s.Reports)
	for id, r := range s.Reports {
		r.At = s.Now
		s.Reports[id] = r
	}
	return s
}

// checkEnd checks what must hold when there is nothing more to do.
func checkEnd(t *testing.T, seed uint64, s autopilot.Scene, c *model.AutopilotConfiguration) {
	t.Helper()
	votes, can := map[string]int{}, map[string]bool{}
	all, alive, healthy := counts(s, c)
	versions := map[string]bool{}
	for _, p := range s.Peers {
		i := slices.IndexFunc(s.Found, func(f autopilot.Found) bool { return f.ID == p.ID })
		f := s.Found[i]
		if !f.Replica && f.Alive {
			versions[f.Release] = true
		}
		stable := s.StableSince[p.ID] != (time.Time{}) && s.Healthy(c, p.ID) && s.Now.Sub(s.StableSince[p.ID]) >= c.ServerStabilizationTime
		switch {
		case p.Voter && f.Alive:
			votes[f.Zone]++
		case !p.Voter && stable && !f.Replica:
			can[f.Zone] = true
			if alive < c.Needed() {
				t.Fatalf("seed %d: %s could vote, and only %d alive servers do: %+v", seed, p.ID, alive, s.Peers)
			}
		}
	}
	mixed := len(versions) > 1 && !c.DisableUpgradeMigration
	if mixed || !c.EnableRedundancyZones {
		if !mixed && len(can) > 0 {
			t.Fatalf("seed %d: servers are ready to vote and do not: %+v", seed, s.Peers)
		}
		return
	}
	for zone := range can {
		if votes[zone] == 0 {
			t.Fatalf("seed %d: zone %q has no vote, and a server that could: %+v %+v", seed, zone, s.Peers, s.Found)
		}
	}
	for zone, n := range votes {
		majority := (alive-1)*2 > all-1 // without one of the zone's votes
		if zone != "" && n > 1 && healthy > c.Needed()+n && majority {
			t.Fatalf("seed %d: zone %q has %d votes: %+v", seed, zone, n, s.Peers)
		}
	}
}
