// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A world of servers and nodes plays hearing and roll on a clock of its own, with
// everything that can go wrong between them.
const (
	worldLease = 8 * time.Second
	worldGrace = 4 * time.Second
	worldLook  = worldLease / looksPerLease
	worldStep  = 200 * time.Millisecond
)

type worldServer struct {
	name    string
	boot    int
	hearing *hearing
	dead    bool
	stalled bool
	cut     bool // its messages do not reach the leader
	awake   time.Time
	look    time.Time            // when it reports next
	lost    map[string]time.Time // connections that ended while it did not run
}

type worldNode struct {
	id       string
	dead     bool
	server   *worldServer // nil while it has no session
	session  uint64
	beat     time.Time // when it beats next
	asked    time.Time // when the beat that is not answered began; zero if none
	content  time.Time // when its last beat was answered
	down     bool      // the state says so
	silentAt time.Time // when it was last certainly heard, or its silence excused
}

type worldMail struct {
	at     time.Time
	report Report
}

type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	servers []*worldServer
	nodes   []*worldNode
	leader  *worldServer // nil while there is none
	roll    *roll
	look    time.Time
	mail    []worldMail // reports that are under way for long
	calm    time.Time   // when something last went wrong
	marked  int
	trace   []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0)}
	for i := range 3 {
		s := &worldServer{name: fmt.Sprintf("s%d", i), lost: map[string]time.Time{}}
		w.servers = append(w.servers, s)
		w.boot(s)
	}
	for i := range 6 {
		w.nodes = append(w.nodes, &worldNode{id: fmt.Sprintf("n%d", i), content: w.now, silentAt: w.now})
	}
	w.lead(w.servers[0])
	return w
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%7.1fs ", w.now.Sub(time.Unix(1_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range append(w.trace[:1], w.trace[max(1, len(w.trace)-60):]...) {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) boot(s *worldServer) {
	s.boot++
	s.hearing = newHearing(s.name, fmt.Sprint(s.boot), worldLease/2, w.now)
	s.dead, s.stalled, s.awake, s.look = false, false, w.now, w.now
	clear(s.lost)
}

func (w *world) lead(s *worldServer) {
	w.leader, w.calm, s.cut = s, w.now, false
	w.log("%s leads", s.name)
	w.roll = newRoll(rollRules{lease: worldLease, broken: worldLease / 2, grace: worldGrace, whole: worldLease + worldGrace})
	var ids []string
	for _, n := range w.nodes {
		if !n.down {
			ids = append(ids, n.id)
		}
	}
	w.roll.excuse(ids, w.now)
	w.look = w.now.Add(worldLook)
}

func (s *worldServer) runs() bool { return !s.dead && !s.stalled }

// leads reports whether there is a leader that answers.
func (w *world) leads() bool { return w.leader != nil && w.leader.runs() }

// wake is Dispatcher.wake.
func (w *world) wake(s *worldServer) {
	slept := w.now.Sub(s.awake) - worldLook
	s.awake = w.now
	if slept < worldLease/2 {
		return
	}
	w.log("%s slept", s.name)
	w.calm = w.now
	s.hearing.excuse(w.now)
	if w.leader == s {
		w.roll.excuse(nil, w.now)
	}
}

// disturb lets something go wrong.
func (w *world) disturb() {
	s := w.servers[w.rng.IntN(len(w.servers))]
	switch w.rng.IntN(9) {
	case 0: // it is killed
		if !s.dead {
			w.log("%s dies", s.name)
			s.dead = true
			if w.leader == s {
				w.leader = nil
			}
			for _, n := range w.nodes {
				if n.server == s {
					n.server, n.asked, n.beat = nil, time.Time{}, w.now
				}
			}
		}
	case 1, 2:
		if s.dead {
			w.log("%s boots", s.name)
			w.boot(s)
		}
	case 3:
		if s.runs() {
			w.log("%s stalls", s.name)
			s.stalled = true
		}
	case 4:
		if s.stalled && !s.dead {
			w.log("%s goes on", s.name)
			s.stalled = false
			w.goOn(s)
		}
	case 5:
		if s.runs() && (w.leader != s) {
			w.lead(s)
		}
	case 6:
		if s != w.leader {
			s.cut = true
			w.log("%s is cut off", s.name)
		}
	case 7:
		s.cut = false
	case 8:
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		if w.rng.IntN(3) == 0 {
			w.log("%s changes to %v", n.id, n.dead)
			n.dead = !n.dead
			if n.dead && n.server != nil { // its connection ends, or the server does not notice
				if w.rng.IntN(2) == 0 {
					w.broken(n)
				}
				n.server, n.asked = nil, time.Time{}
			}
		} else if !n.dead && n.server != nil { // its connection breaks
			w.broken(n)
			n.server, n.asked, n.beat = nil, time.Time{}, w.now
		}
	}
	if !s.runs() || s.cut {
		w.calm = w.now
	}
}

// goOn has a server that was stalled notice what happened, in any order.
func (w *world) goOn(s *worldServer) {
	if w.rng.IntN(2) == 0 {
		w.wake(s)
	}
	for id := range s.lost {
		s.hearing.leave(id, w.now)
	}
	clear(s.lost)
}

// broken ends the connection of a node with its server.
func (w *world) broken(n *worldNode) {
	switch s := n.server; {
	case s.dead:
	case s.stalled:
		if w.rng.IntN(2) == 0 { // otherwise the connection stays half open
			s.lost[n.id] = w.now
		}
	default:
		s.hearing.leave(n.id, w.now)
	}
}

// live is one step of a node.
func (w *world) live(n *worldNode) {
	if n.dead || w.now.Before(n.beat) {
		return
	}
	if n.server == nil {
		w.connect(n)
		return
	}
	s := n.server
	switch {
	case s.stalled:
		if n.asked.IsZero() {
			n.asked = w.now
		} else if w.now.Sub(n.asked) >= worldLease/2 {
			w.broken(n)
			n.server, n.asked = nil, time.Time{}
		}
		return
	case s.hearing.nodes[n.id] == nil, s.hearing.nodes[n.id].session != n.session: // its session was ended
		n.server, n.asked = nil, time.Time{}
		return
	case s.hearing.cutOff(w.now, worldLease):
		w.log("%s is turned away by %s", n.id, s.name)
		w.broken(n)
		n.server, n.asked = nil, time.Time{}
		return
	case n.down:
		if !w.leads() || s.cut {
			return
		}
		w.ready(n)
		s.hearing.heard(HeardNode{NodeID: n.id, Instance: "i", Session: n.session}, w.now)
		s.hearing.tell(n.id)
	default:
		s.hearing.heard(HeardNode{NodeID: n.id, Instance: "i", Session: n.session}, w.now)
	}
	n.asked, n.content, n.silentAt = time.Time{}, w.now, w.now
	n.beat = w.now.Add(worldLease / 3)
}

func (w *world) ready(n *worldNode) {
	if n.down {
		w.log("%s is ready", n.id)
	}
	n.down = false
	w.roll.touch(HeardNode{NodeID: n.id, Instance: "i", Session: n.session}, w.now)
}

// connect begins a session with a server: the node registers, and attaches.
func (w *world) connect(n *worldNode) {
	s := w.servers[w.rng.IntN(len(w.servers))]
	n.beat = w.now.Add(worldStep)
	if !s.runs() || s.cut || !w.leads() || s.hearing.cutOff(w.now, worldLease) {
		return
	}
	n.session++
	w.log("%s attaches to %s, session %d", n.id, s.name, n.session)
	w.ready(n)
	n.server = s
	s.hearing.heard(HeardNode{NodeID: n.id, Instance: "i", Session: n.session}, w.now)
	s.hearing.tell(n.id)
	n.content, n.silentAt, n.beat = w.now, w.now, w.now.Add(worldLease/3)
}

// report is Dispatcher.report, over a network that may lose, repeat and delay.
func (w *world) report(s *worldServer, fault int) {
	w.wake(s)
	s.hearing.late = worldLease / 2
	for _, id := range s.hearing.overdue(w.now, worldLease) {
		if w.node(id).down {
			s.hearing.leave(id, w.now)
		}
	}
	r := s.hearing.report(w.now)
	answer, err := ReportAnswer{}, errors.New("no leader")
	if w.leads() && !s.cut {
		switch fault {
		case 0: // lost
			w.log("report %d of %s is lost", r.Number, s.name)
			w.calm = w.now
		case 1: // it arrives much later, when the server has given it up
			w.log("report %d of %s is late", r.Number, s.name)
			w.mail, w.calm = append(w.mail, worldMail{w.now.Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond), r}), w.now
		case 2: // the answer is lost
			w.log("the answer to %d of %s is lost", r.Number, s.name)
			w.roll.report(r, w.now)
			w.calm = w.now
		case 3: // it arrives twice
			answer, err = w.roll.report(r, w.now), nil
			w.roll.report(r, w.now)
		default:
			answer, err = w.roll.report(r, w.now), nil
		}
	}
	for _, e := range s.hearing.answered(w.now, answer, err) {
		w.log("%s ends the session of %s", s.name, e.NodeID)
	}
	if answer.Again {
		s.look = w.now
	}
}

func (w *world) node(id string) *worldNode {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// judge is the leader's look.
func (w *world) judge() {
	w.wake(w.leader)
	for _, name := range w.roll.disown(w.now) {
		w.log("%s is disowned", name)
	}
	for _, id := range w.roll.silent(w.now) {
		n := w.node(id)
		if !n.dead && w.now.Sub(n.content) <= worldLease/2 {
			w.fail("%s is marked down, and was content %s ago", id, w.now.Sub(n.content))
		}
		w.log("%s is down", id)
		n.down = true
		w.roll.forget(id)
		w.marked++
	}
}

func (w *world) step(faults bool) {
	w.now = w.now.Add(worldStep)
	if faults && w.rng.IntN(12) == 0 {
		w.disturb()
	}
	if !w.leads() && w.rng.IntN(10) == 0 { // an election
		if s := w.servers[w.rng.IntN(len(w.servers))]; s.runs() {
			w.lead(s)
		}
	}
	for i := 0; i < len(w.mail); i++ {
		if m := w.mail[i]; !w.now.Before(m.at) && w.leads() {
			w.log("report %d of %s arrives", m.report.Number, m.report.Server)
			w.roll.report(m.report, w.now)
			w.mail = append(w.mail[:i], w.mail[i+1:]...)
			i--
		}
	}
	for _, n := range w.nodes {
		w.live(n)
	}
	for _, s := range w.servers {
		if s.runs() && !w.now.Before(s.look) {
			s.look = w.now.Add(worldLook)
			fault := -1
			if faults {
				fault = w.rng.IntN(20)
			}
			w.report(s, fault)
		}
	}
	if w.leads() && !w.now.Before(w.look) {
		w.look = w.now.Add(worldLook)
		w.judge()
	}
	w.overdue()
}

// overdue fails if a silent node is not down in time.
func (w *world) overdue() {
	for _, n := range w.nodes {
		if n.down || !w.leads() {
			continue
		}
		limit := worldLease + worldGrace + 2*worldLook // the server's report, and the leader's look
		since := n.silentAt
		if w.calm.After(since) {
			since = w.calm
			limit += worldLease + 2*worldLook // until the leader misses a server
		}
		if w.now.Sub(since) > limit {
			w.fail("%s is silent for %s, nothing went wrong for %s, and it is not down", n.id, w.now.Sub(n.silentAt), w.now.Sub(w.calm))
		}
	}
}

// settled fails if the leader's roll is not true after a calm time.
func (w *world) settled() {
	if !w.leads() {
		return
	}
	for _, n := range w.nodes {
		holder := w.roll.holder(n.id)
		switch {
		case n.dead && (holder != "" || !n.down):
			w.fail("%s is dead, and it is down: %v; the leader believes it at %q", n.id, n.down, holder)
		case !n.dead && n.server != nil && n.server.runs() && (n.down || holder != n.server.name):
			w.fail("%s is with %s, and it is down: %v; the leader believes it at %q", n.id, n.server.name, n.down, holder)
		}
	}
}

func TestANodeThatBeatsIsNeverMarkedAndOneThatIsSilentAlwaysWhateverHappens(t *testing.T) {
	marked := 0
	for seed := range uint64(200) {
		w := newWorld(t, seed)
		w.log("seed %d", seed)
		for range 5 {
			for range 150 { // half a minute in which things go wrong, and then
				w.step(true)
			}
			for _, s := range w.servers {
				s.cut = false
			}
			w.calm = w.now
			for range 300 { // a minute in which nothing does
				w.step(false)
			}
			w.settled()
		}
		marked += w.marked
	}
	if marked < 200 {
		t.Errorf("only %d nodes were marked in all: the test tries too little", marked)
	}
	t.Logf("%d nodes were marked", marked)
}
