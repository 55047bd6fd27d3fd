// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package autopilot

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Config are the limits and rules of autopilot.
type Config = model.AutopilotConfiguration

// Peer is a member of raft.
type Peer struct {
	ID, Address string
	Voter       bool
}

// Found is a server that gossip has found.
type Found struct {
	ID, Name, Address string
	// Alive servers answer; Left ones have said that they leave. Others have failed.
	Alive, Left bool
	// OutOfReach servers gossip, but the leader cannot connect to them for raft.
	OutOfReach bool
	// Replica servers never vote: they serve stale reads.
	Replica bool
	// Zone is the redundancy zone, "" if the server has none.
	Zone string
	// Release is the version of drover, and Upgrade the version in its operator's
	// configuration; "" if unset.
	Release, Upgrade string
}

// Report is a server's report about itself.
type Report struct {
	LastIndex, LastTerm uint64
	// LastContact is how long ago the server heard from the leader, and Earlier the
	// LastContact of the previous report, 0 if there was none.
	LastContact, Earlier time.Duration
	At                   time.Time // when the report arrived
}

// Scene is what Decide looks at.
type Scene struct {
	Now  time.Time
	Self string // the id of the leader
	// Peers are the members of raft, Found the servers of gossip, and Reports the
	// newest reports by id.
	Peers   []Peer
	Found   []Found
	Reports map[string]Report
	// Beat is the longest pause between two heartbeats of the leader.
	Beat time.Duration
	// LastIndex and Term describe the end of the leader's log.
	LastIndex, Term uint64
	// StableSince is since when servers are healthy without a break, by id.
	StableSince map[string]time.Time
	// HandedOver is when the leader last tried to make another server the leader.
	HandedOver time.Time
}

// contact returns how long ago the server heard from the leader, by the better of its last
// two reports, because its machine may have been busy during one of them.
func (r Report) contact() time.Duration {
	if r.Earlier == 0 {
		return r.LastContact
	}
	return min(r.LastContact, r.Earlier)
}

// reportsLast is how long a report is valid.
const reportsLast = 5 * time.Second

// LastContact returns how long ago a server heard from the leader, as far as the leader
// knows. Of a server that no longer answers it counts on from the last report.
func (s Scene) LastContact(id string) time.Duration {
	r := s.Reports[id]
	if age := s.Now.Sub(r.At); !r.At.IsZero() && age > reportsLast {
		return r.LastContact + age
	}
	return r.LastContact
}

// beatsToMiss is after how many heartbeats that have not come a server may be unhealthy,
// whatever the threshold is: with a raft_multiplier the pauses alone can be longer.
const beatsToMiss = 2

// Healthy reports whether a server keeps up with the leader. A newer scene may differ.
func (s Scene) Healthy(c *Config, id string) bool {
	if id == s.Self {
		return true
	}
	f := s.found(id)
	r, known := s.Reports[id]
	return f != nil && f.Alive && known && s.Now.Sub(r.At) <= reportsLast &&
		r.LastTerm == s.Term && r.contact() <= max(c.LastContactThreshold, beatsToMiss*s.Beat) && r.LastIndex+c.MaxTrailingLogs >= s.LastIndex
}

// stable reports whether a server has been healthy for long enough to vote.
func (s Scene) stable(c *Config, id string) bool {
	since, healthy := s.StableSince[id]
	return healthy && s.Healthy(c, id) && s.Now.Sub(since) >= c.ServerStabilizationTime
}

// found returns the server with an id, an alive one if there are several.
func (s Scene) found(id string) *Found {
	var out *Found
	for i := range s.Found {
		if f := &s.Found[i]; f.ID == id && (out == nil || f.Alive) {
			out = f
		}
	}
	return out
}

func (s Scene) peer(match func(Peer) bool) *Peer {
	if i := slices.IndexFunc(s.Peers, match); i >= 0 {
		return &s.Peers[i]
	}
	return nil
}

func (s Scene) member(id string) *Peer { return s.peer(func(p Peer) bool { return p.ID == id }) }

// alive reports whether the leader or an alive server of gossip has the id.
func (s Scene) alive(id string) bool {
	f := s.found(id)
	return id == s.Self || f != nil && f.Alive
}

// voters returns the number of voters, of those that are alive, and of those that are
// healthy. The server with the id without is left out.
func (s Scene) voters(c *Config, without string) (all, alive, healthy int) {
	for _, p := range s.Peers {
		if !p.Voter || p.ID == without {
			continue
		}
		all++
		if s.alive(p.ID) {
			alive++
		}
		if s.Healthy(c, p.ID) {
			healthy++
		}
	}
	return all, alive, healthy
}

// version returns the version that upgrades compare: the operator's, or else the release.
func (f *Found) version(c *Config) string {
	if c.EnableCustomUpgrades {
		return f.Upgrade
	}
	return f.Release
}

// older compares versions such as "1.10.0-rc1+dev": the numbers between dots by their
// value, a version without a suffix above the same one with it. The part after a plus sign
// is ignored.
func older(a, b string) bool {
	a, _, _ = strings.Cut(strings.TrimPrefix(a, "v"), "+")
	b, _, _ = strings.Cut(strings.TrimPrefix(b, "v"), "+")
	numbersA, suffixA, preA := strings.Cut(a, "-")
	numbersB, suffixB, preB := strings.Cut(b, "-")
	if d := compare(numbersA, numbersB); d != 0 {
		return d < 0
	}
	if preA != preB {
		return preA
	}
	return compare(suffixA, suffixB) < 0
}

// compare compares the parts between dots: numbers by their value, other texts by their
// letters, and a missing part as 0.
func compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := part(as, i), part(bs, i)
		n, errN := strconv.ParseUint(x, 10, 64)
		m, errM := strconv.ParseUint(y, 10, 64)
		switch {
		case errN == nil && errM == nil && n != m:
			if n < m {
				return -1
			}
			return 1
		case (errN != nil || errM != nil) && x != y:
			return strings.Compare(x, y)
		}
	}
	return 0
}

func part(parts []string, i int) string {
	if i < len(parts) && parts[i] != "" {
		return parts[i]
	}
	return "0"
}

// Tolerance returns how many voters may fail before the cluster cannot write any more.
func Tolerance(s Scene, c *Config) int {
	all, _, healthy := s.voters(c, "")
	return max(healthy-all/2-1, 0)
}

// Successor returns the voter to which the leader can hand over without a pause: a healthy
// one, of the newest version and with the longest log. wanted may exclude servers; nil
// excludes none. It returns "" if there is none.
func Successor(s Scene, c *Config, wanted func(id string) bool) string {
	var best *Found
	for _, p := range s.Peers {
		f := s.found(p.ID)
		if !p.Voter || p.ID == s.Self || f == nil || f.Replica || !s.Healthy(c, p.ID) || wanted != nil && !wanted(p.ID) {
			continue
		}
		if best == nil || older(best.version(c), f.version(c)) ||
			!older(f.version(c), best.version(c)) && s.Reports[f.ID].LastIndex > s.Reports[best.ID].LastIndex {
			best = f
		}
	}
	if best == nil {
		return ""
	}
	return best.ID
}
