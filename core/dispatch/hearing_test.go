// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A leader that asks for a full report has not taken the one that it got. Until it has taken a
// report, it may give the nodes of the server up, so the server must grant no leases.
func TestAServerHasNoContactUntilTheLeaderHasTakenAReport(t *testing.T) {
	const lease = time.Minute
	begun := time.Unix(1000, 0)
	h := newHearing("s", "boot", lease/2, begun)
	h.answered(begun, ReportAnswer{}, nil)
	later := begun.Add(time.Hour)
	if h.report(later); !h.cutOff(later, lease) {
		t.Error("a server that was not answered for an hour has contact")
	}
	if h.answered(later, ReportAnswer{Again: true}, nil); !h.cutOff(later, lease) {
		t.Error("a server whose report was not taken has contact")
	}
	if full := h.report(later); !full.Full {
		t.Error("the next report is not a full one")
	}
	if h.answered(later, ReportAnswer{}, nil); h.cutOff(later, lease) {
		t.Error("a server whose report was taken has no contact")
	}
}

// said says in words what a report tells the leader.
func said(r Report) []string {
	var out []string
	for _, n := range r.Heard {
		out = append(out, fmt.Sprintf("heard %s %s/%d", n.NodeID, n.Instance, n.Session))
	}
	for _, n := range r.Late {
		out = append(out, fmt.Sprintf("late %s %s", n.NodeID, n.Age))
	}
	for _, n := range r.Left {
		out = append(out, fmt.Sprintf("left %s %d %s", n.NodeID, n.Session, n.Age))
	}
	return out
}

func TestAServerTellsTheLeaderOnlyWhatIsNewOfItsNodes(t *testing.T) {
	at := time.Unix(1000, 0)
	late := 10 * time.Second
	h := newHearing("s", "boot", late, at)
	full := func() []string { return said(h.report(at)) }
	expect := func(when string, want ...string) {
		t.Helper()
		if got := full(); !slices.Equal(got, want) {
			t.Errorf("%s: it says %q, not %q", when, got, want)
		}
	}
	hear := func(node, instance string, session uint64, news bool) {
		t.Helper()
		if got := h.heard(HeardNode{NodeID: node, Instance: instance, Session: session}, at); got != news {
			t.Errorf("that %s is heard is news: %t", node, got)
		}
	}
	hear("c", "i", 1, true)
	hear("a", "i", 1, true)
	hear("b", "i", 1, true)
	expect("at first", "heard a i/1", "heard b i/1", "heard c i/1")
	hear("a", "i", 1, false)
	expect("a beat")
	hear("a", "i", 2, true)
	hear("a", "i", 1, false) // an older session does not replace it
	expect("another session", "heard a i/2")
	hear("a", "j", 2, true)
	expect("another process", "heard a j/2")

	at = at.Add(late)
	expect("just not late")
	at = at.Add(1)
	if got := h.overdue(at, late); len(got) != 3 {
		t.Errorf("overdue are %q", got)
	}
	if got := h.overdue(at, late+1); len(got) != 0 {
		t.Errorf("overdue are %q", got)
	}
	hear("a", "j", 2, true) // it was late
	if r := h.report(at); len(r.Late) != 2 || len(r.Heard) != 1 {
		t.Errorf("late: %q", said(r))
	}
	h.excuse(at)
	expect("the late ones are excused")

	h.leave("b", at)
	h.leave("nobody", at)
	at = at.Add(time.Second)
	expect("a session ends", "left b 1 1s")
	expect("once")
	h.leave("c", at)
	hear("c", "i", 2, true)
	expect("it is back at once", "heard c i/2")
	h.tell("nobody")
	expect("of an unknown node there is nothing to tell")

	h.answered(at, ReportAnswer{}, errors.New("no leader"))
	expect("the leader did not answer", "heard a j/2", "heard c i/2")
	h.answered(at, ReportAnswer{Again: true}, nil)
	expect("it wants all again", "heard a j/2", "heard c i/2")
	expect("and then only what is new")
}

func TestASessionEndsHereOnlyIfItIsTheOneThatTheNodeHasLeft(t *testing.T) {
	at := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		elsewhere NodeElsewhere
		ends      bool
	}{
		"the one that is here":       {NodeElsewhere{HeardNode: HeardNode{NodeID: "a", Instance: "i", Session: 2}}, true},
		"an older one":               {NodeElsewhere{HeardNode: HeardNode{NodeID: "a", Instance: "i", Session: 1}}, false},
		"of another process":         {NodeElsewhere{HeardNode: HeardNode{NodeID: "a", Instance: "j", Session: 2}}, false},
		"of a node that is not here": {NodeElsewhere{HeardNode: HeardNode{NodeID: "b", Instance: "i", Session: 2}}, false},
	} {
		h := newHearing("s", "boot", time.Second, at)
		h.heard(HeardNode{NodeID: "a", Instance: "i", Session: 2}, at)
		end := h.answered(at, ReportAnswer{Elsewhere: []NodeElsewhere{c.elsewhere}}, nil)
		if (len(end) == 1) != c.ends || (h.nodes["a"] == nil) != c.ends {
			t.Errorf("%s: %+v ends", name, end)
		}
	}
}
