// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/allocs"
	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// choice is two servers, between which a node moves.
type choice struct {
	rpc.Servers // the rest is not asked

	mu       sync.Mutex
	now      int
	sessions [][2]uint64 // server and number of each session
	tries    []time.Time // registrations
	learned  []string
	register [2]error
	beats    [2]error
	index    [2]uint64 // of what they push
}

func (c *choice) Leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = 1 - c.now
	return true
}

func (c *choice) Known() []string { return []string{"b:1", "a:1"} }

func (c *choice) Learn(addresses []string) { c.learned = addresses }

func (c *choice) Register(_ context.Context, n *model.Node) (rpc.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries = append(c.tries, time.Now())
	if err := c.register[c.now]; err != nil {
		return rpc.Lease{}, err
	}
	c.sessions = append(c.sessions, [2]uint64{uint64(c.now), n.Session})
	return rpc.Lease{TTL: 8 * time.Second}, nil
}

func (c *choice) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rpc.Lease{TTL: 8 * time.Second}, c.beats[c.now]
}

func (c *choice) Attach(ctx context.Context, _ rpc.Identity, _ rpc.Node, push func(*rpc.Assignments) error) error {
	c.mu.Lock()
	index := c.index[c.now]
	c.mu.Unlock()
	if err := push(&rpc.Assignments{Index: index, Full: true, Confirmed: true}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// memory is a Store.
type memory map[string][]byte

func (m memory) Get(_ context.Context, key string) ([]byte, error) {
	if b, ok := m[key]; ok {
		return b, nil
	}
	return nil, errdefs.NotFoundf("no %s", key)
}

func (m memory) Put(_ context.Context, key string, value []byte) error {
	m[key] = value
	return nil
}

// idle is a node without allocs.
type idle struct{}

func (idle) Apply(context.Context, *rpc.Assignments, bool, allocs.Fetch) error { return nil }
func (idle) ForgetKnown()                                                      {}
func (idle) Unassigned(*rpc.Assignments) int                                   { return 0 }
func (idle) Retry()                                                            {}
func (idle) Told(map[string]uint64, bool)                                      {}
func (idle) Wanted([]string, time.Time) [][]byte                               { return nil }
func (idle) Sent([][]byte, error, time.Time)                                   {}

// run has a node live with the servers for a time.
func run(t *testing.T, c *choice, disk memory, d time.Duration, meanwhile ...func()) {
	t.Helper()
	runLogged(t, hclog.NewNullLogger(), c, disk, d, meanwhile...)
}

func runLogged(t *testing.T, logger hclog.Logger, c *choice, disk memory, d time.Duration, meanwhile ...func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := session.New(ctx, session.Config{Servers: c, Store: disk, NodeID: "n", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	s.Bind(session.Parts{Node: func() *model.Node { return &model.Node{ID: "n"} }, Allocs: idle{}, Updates: idle{}, Schemas: idle{}, Releases: func() {}})
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	for _, f := range meanwhile {
		time.Sleep(d)
		c.mu.Lock()
		f()
		c.mu.Unlock()
	}
	time.Sleep(d)
	cancel()
	<-ended
}

func TestANodeMovesAtOnceFromAServerThatCannotServeIt(t *testing.T) {
	for what, err := range map[string]error{
		"it says so":         errdefs.WithReason(errdefs.Unavailablef("no leader"), rpc.ReasonLeave),
		"it does not answer": errdefs.DeadlineExceededf("no answer"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &choice{}
			run(t, c, memory{}, 5*time.Second, func() { c.beats[0] = err })
			if want := [][2]uint64{{0, 1}, {1, 2}}; !slices.Equal(c.sessions, want) {
				t.Errorf("%s: sessions %v, want %v", what, c.sessions, want)
			}
		})
	}
}

func TestANodeMovesFromAServerThatLagsBehindWhatItHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &choice{index: [2]uint64{9, 7}}
		run(t, c, memory{}, 10*time.Second, func() {
			c.beats[0] = errdefs.WithReason(errdefs.Unavailablef("no leader"), rpc.ReasonLeave)
		}, func() { c.beats[0], c.index[1] = nil, 9 })
		last := c.sessions[len(c.sessions)-1]
		if len(c.sessions) < 3 || c.sessions[1][0] != 1 || c.sessions[2][0] != 0 {
			t.Errorf("sessions %v", c.sessions)
		}
		if last[1] != uint64(len(c.tries)) {
			t.Errorf("the last of %d sessions has number %d", len(c.tries), last[1])
		}
	})
}

func TestANodeThatIsSentAwayComesBackWhenItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("too many"), 3*time.Second)
		c := &choice{register: [2]error{full, full}}
		run(t, c, memory{}, 10*time.Second)
		if n := len(c.tries); n != 4 {
			t.Errorf("it came %d times", n)
		}
		for i := range c.tries[1:] {
			if d := c.tries[i+1].Sub(c.tries[i]); d < 3*time.Second || d > 3100*time.Millisecond {
				t.Errorf("it came back after %s", d)
			}
		}
	})
}

func TestAnAgentFindsTheServersAgainThatItKnewBeforeItsRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memory{}
		run(t, &choice{}, disk, time.Second)
		c := &choice{}
		run(t, c, disk, time.Second)
		if !slices.Equal(c.learned, []string{"a:1", "b:1"}) {
			t.Errorf("it learned %v", c.learned)
		}
		disk["node/servers"] = []byte("{")
		c = &choice{}
		run(t, c, disk, time.Second)
		if len(c.learned) != 0 || len(c.sessions) != 1 {
			t.Errorf("with a damaged list it learned %v, and had %d sessions", c.learned, len(c.sessions))
		}
	})
}

// Servers that cannot serve nodes are not asked ten times a second by each node for as long
// as that lasts, and the node's log says it when it begins, once a minute, and when it ends.
func TestServersWithoutALeaderAreAskedAtGrowingPausesAndTheLogTellsItBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaderless := errdefs.WithReason(errdefs.Unavailablef("no contact with a leader"), rpc.ReasonLeave)
		c := &choice{register: [2]error{leaderless, errdefs.Unavailablef("connection refused")}}
		var log bytes.Buffer
		runLogged(t, hclog.New(&hclog.LoggerOptions{Output: &log}), c, memory{}, 10*time.Minute, func() { c.register = [2]error{} })
		failed := len(c.tries) - len(c.sessions)
		if failed < 120 || failed > 300 {
			t.Errorf("%d attempts in ten minutes without a leader", failed)
		}
		first := 0
		for _, at := range c.tries {
			if at.Sub(c.tries[0]) < 2*time.Second {
				first++
			}
		}
		if first < 4 || first > 8 {
			t.Errorf("%d attempts in the first two seconds", first)
		}
		text := log.String()
		if n := strings.Count(text, "no session with the servers"); n < 12 || n > 24 {
			t.Errorf("%d lines about it in ten minutes:\n%s", n, text)
		}
		if n := strings.Count(text, "has a session with the servers again"); n != 1 || !strings.Contains(text, fmt.Sprintf("failed_attempts=%d", failed)) {
			t.Errorf("%d lines say that it is over, after %d attempts:\n%s", n, failed, text)
		}
	})
}
