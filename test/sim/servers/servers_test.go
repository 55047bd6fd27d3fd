// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// server is a server that runs, or has crashed.
type server struct {
	id    string
	disk  *consensus.Memory
	node  *consensus.Node // nil after a crash
	store *state.Store
}

// cluster is three servers and what clients know of them.
type cluster struct {
	t       *testing.T
	rng     *rand.Rand
	net     *network
	servers []*server
	wrote   map[string]string // what an acknowledged write has stored, by path
	doubt   map[string]string // what a write may have stored that was not answered
	acked   int
	crashes int
}

func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 44)), net: newNetwork(), wrote: map[string]string{}, doubt: map[string]string{}}
	for i := range 3 {
		c.servers = append(c.servers, &server{id: fmt.Sprint("s", i+1), disk: consensus.NewMemory()})
	}
	for _, s := range c.servers {
		c.start(s)
	}
	return c
}

// start starts a server with what its disk has.
func (c *cluster) start(s *server) {
	c.t.Helper()
	s.store = state.New()
	var members []consensus.Server
	for _, m := range c.servers {
		members = append(members, consensus.Server{ID: m.id, Address: m.id, Voter: true})
	}
	var err error
	s.node, err = consensus.Open(consensus.Config{
		NodeID: s.id, Memory: s.disk, Listener: c.net.listen(s.id), Dial: c.net.dial(s.id), Bootstrap: members,
		Machine:           fsm.New(s.store, hclog.NewNullLogger()),
		SnapshotThreshold: 20, SnapshotInterval: 2 * time.Second, TrailingLogs: 5,
	})
	if err != nil {
		c.t.Fatalf("%s does not start: %v", s.id, err)
	}
}

// crash ends a server. Its disk keeps what was stored at this moment.
func (c *cluster) crash(s *server) {
	c.t.Helper()
	for _, other := range c.servers {
		c.net.lose(s.id, other.id) // nobody hears what it does from now on
	}
	synctest.Wait() // until nobody writes
	disk, err := s.disk.Clone()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.node.Close(); err != nil {
		c.t.Errorf("%s: %v", s.id, err)
	}
	c.net.hear(s.id)
	s.disk, s.node = disk, nil
	c.crashes++
}

// write lets a client write one of few variables through the server that it believes to lead.
func (c *cluster) write(n int) {
	path, value := fmt.Sprint("p/", c.rng.IntN(4)), fmt.Sprint(n)
	for _, s := range c.servers {
		if s.node == nil || !s.node.IsLeader() {
			continue
		}
		data, err := fsm.Encode(&fsm.PutVariable{Variable: &model.Variable{Namespace: "default", Path: path, Data: []byte(value)}, Now: int64(n)})
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, answer, err := s.node.Propose(ctx, data)
		cancel()
		refused, _ := answer.(error)
		switch {
		case err == nil && refused == nil:
			c.wrote[path] = value
			delete(c.doubt, path)
			c.acked++
		case refused == nil:
			c.doubt[path] = value
		}
		return
	}
}

// play lets faults befall the cluster while a client writes.
func (c *cluster) play(steps int) {
	for n := range steps {
		s, other := c.servers[c.rng.IntN(3)], c.servers[c.rng.IntN(3)]
		switch c.rng.IntN(14) {
		case 0:
			if s.node != nil {
				c.crash(s)
			}
		case 1, 2, 3:
			if s.node == nil {
				c.start(s)
			}
		case 4:
			c.net.lose(s.id, other.id)
		case 5:
			for _, other := range c.servers {
				c.net.lose(s.id, other.id)
				c.net.lose(other.id, s.id)
			}
		case 6, 7:
			c.net.heal()
		case 8, 9:
			time.Sleep(time.Duration(c.rng.IntN(3000)) * time.Millisecond) // of the bubble's clock
		case 10:
			time.Sleep(15 * time.Second)
		}
		c.write(n)
	}
}

// rest heals everything and waits until the servers have the same log. Then it checks what
// must be so.
func (c *cluster) rest() {
	c.t.Helper()
	c.net.heal()
	for _, s := range c.servers {
		if s.node == nil {
			c.start(s)
		}
	}
	last := ""
	for n := 1_000_000; last == ""; n++ {
		if time.Sleep(time.Second); n > 1_000_120 {
			c.t.Fatal("two minutes after all faults nothing can be written")
		}
		before := c.acked
		if c.write(n); c.acked > before {
			last = "written"
		}
	}
	for n := 0; !c.caughtUp(); n++ {
		if time.Sleep(time.Second); n > 300 { // raft waits up to 40 s between its attempts, and 10 s for each answer
			c.t.Error("five minutes after all faults a server lags behind")
			break
		}
	}
	digests := map[string]bool{}
	for _, s := range c.servers {
		view := s.store.View()
		digest, err := fsm.Digest(c.t.Context(), view)
		if err != nil {
			c.t.Fatal(err)
		}
		digests[fmt.Sprint(view.Index(), " ", digest)] = true
		for path, value := range c.wrote {
			got := view.VariableByPath("default", path)
			if got == nil || string(got.Data) != value && c.doubt[path] == "" {
				c.t.Errorf("%s: %s was written as %s and acknowledged, and is %+v", s.id, path, value, got)
			}
		}
	}
	if len(digests) != 1 {
		c.t.Errorf("the states differ: %v", digests)
	}
}

// caughtUp reports whether the servers have applied the same entries.
func (c *cluster) caughtUp() bool {
	synctest.Wait()
	at := map[uint64]bool{}
	for _, s := range c.servers {
		at[s.store.View().Index()] = true
	}
	return len(at) == 1
}

func (c *cluster) close() {
	var err error
	for _, s := range c.servers {
		if s.node != nil {
			err = errors.Join(err, s.node.Close())
		}
	}
	if err != nil {
		c.t.Error(err)
	}
}

const (
	// inCI is how many seeds are played unless somebody asks for a number of them.
	inCI = 1000
	// One history in everyLong is long, so that there are many beginnings and some
	// histories in which logs are cut and snapshots sent several times.
	everyLong, longHistory, shortHistory = 10, 120, 30
)

// steps returns the length of the history of a seed.
func steps(seed uint64) int {
	if seed%everyLong == 0 {
		return longHistory
	}
	return shortHistory
}

// seeds returns the seeds to play: DROVER_SIM_SEEDS of them, or DROVER_SIM_SEED alone.
func seeds(t *testing.T) (from, to uint64) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s: give a number", name, text)
		}
		return n
	}
	if os.Getenv("DROVER_SIM_SEED") != "" {
		from = number("DROVER_SIM_SEED", 0)
		return from, from + 1
	}
	return 0, number("DROVER_SIM_SEEDS", inCI)
}

// TestWhatIsAcknowledgedSurvivesAndStatesAreEqualWhateverBreaks plays a history for each
// seed.
func TestWhatIsAcknowledgedSurvivesAndStatesAreEqualWhateverBreaks(t *testing.T) {
	from, to := seeds(t)
	// Each connection of raft has buffers of half a megabyte, and histories make many.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	acked, crashes := 0, 0
	for seed := from; seed < to; seed++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() { // here, as Test does not return after a failure
				if t.Failed() {
					t.Logf("DROVER_SIM_SEED=%d plays it again", seed)
				}
			}()
			c := newCluster(t, seed)
			defer c.close()
			c.play(steps(seed))
			c.rest()
			acked, crashes = acked+c.acked, crashes+c.crashes
		})
	}
	t.Logf("%d histories, %d acknowledged writes, %d crashes", to-from, acked, crashes)
}
