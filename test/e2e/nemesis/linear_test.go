// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/drover-project/drover/test/e2e/harness"
)

const (
	// Each round has users that send requests from its begin to its end. A fault lasts from
	// struck to mended.
	struck, mended, end = 200 * time.Millisecond, 1100 * time.Millisecond, 1500 * time.Millisecond
	users               = 6
	// late is as between continents; tooLate is longer than a follower waits for its leader.
	late, tooLate = 60 * time.Millisecond, 600 * time.Millisecond
	// inCI is how long the rounds may take if nobody has asked for a number of them.
	inCI       = 140 * time.Second
	roundsInCI = 50
)

// fault is something that befalls a cluster; what it does ends with cluster.working, or
// with the function that it returns.
type fault struct {
	name string
	do   func(c *cluster, leader *harness.Agent, followers []*harness.Agent) (mend func())
}

func nothing() {}

var faults = []fault{
	{"nothing", func(*cluster, *harness.Agent, []*harness.Agent) func() { return nothing }},
	{"the leader is killed", func(_ *cluster, l *harness.Agent, _ []*harness.Agent) func() { l.Kill(); return l.Launch }},
	{"a follower is killed", func(_ *cluster, _ *harness.Agent, f []*harness.Agent) func() { f[0].Kill(); return f[0].Launch }},
	{"the leader is suspended", func(_ *cluster, l *harness.Agent, _ []*harness.Agent) func() {
		l.Signal(syscall.SIGSTOP)
		return func() { l.Signal(syscall.SIGCONT) }
	}},
	{"a follower is suspended", func(_ *cluster, _ *harness.Agent, f []*harness.Agent) func() {
		f[0].Signal(syscall.SIGSTOP)
		return func() { f[0].Signal(syscall.SIGCONT) }
	}},
	{"the leader is cut off", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Split(l, f...)
		return func() { c.network.Heal(c.servers...) }
	}},
	{"a follower is cut off", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Split(f[0], l, f[1])
		return func() { c.network.Heal(c.servers...) }
	}},
	{"the leader hears nothing", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Deaf(l, f...)
		return func() { c.network.Heal(c.servers...) }
	}},
	{"nobody hears the leader", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Deaf(f[0], l)
		c.network.Deaf(f[1], l)
		return func() { c.network.Heal(c.servers...) }
	}},
	{"one follower hears the leader", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Split(f[0], l)
		return func() { c.network.Heal(c.servers...) }
	}},
	{"a fifth of all packets is lost", func(c *cluster, _ *harness.Agent, _ []*harness.Agent) func() {
		for _, a := range c.servers {
			c.network.Lossy(a, 20, without(c.servers, a)...)
		}
		return func() { c.network.Heal(c.servers...) }
	}},
	{"what servers say arrives late", func(c *cluster, _ *harness.Agent, _ []*harness.Agent) func() {
		for _, a := range c.servers {
			c.network.Slow(a, late, without(c.servers, a)...)
		}
		return func() { c.network.Heal(c.servers...) }
	}},
	{"what the leader says to one follower arrives too late", func(c *cluster, l *harness.Agent, f []*harness.Agent) func() {
		c.network.Slow(l, tooLate, f[0])
		return func() { c.network.Heal(c.servers...) }
	}},
	{"the leader hands over", func(_ *cluster, l *harness.Agent, f []*harness.Agent) func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.TransferLeadership(ctx, "", f[0].RPCAddress()) // a slow one may fail
		return nothing
	}},
	{"the power fails", func(c *cluster, _ *harness.Agent, _ []*harness.Agent) func() {
		for _, a := range c.servers {
			a.Kill()
		}
		for _, a := range c.servers {
			a.Launch()
		}
		return nothing
	}},
}

// rounds returns how many rounds to run, and when to stop before that.
func rounds(t *testing.T) (n int, until time.Time) {
	t.Helper()
	text := os.Getenv("DROVER_NEMESIS_ROUNDS")
	if text == "" {
		return roundsInCI, time.Now().Add(inCI)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DROVER_NEMESIS_ROUNDS=%s: give a number of rounds", text)
	}
	return n, time.Now().Add(24 * time.Hour)
}

func TestRequestsToAnyServerAreLinearizableWhateverBreaks(t *testing.T) {
	c := newCluster(t, 0, nil)
	n, until := rounds(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DROVER_NEMESIS_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("DROVER_NEMESIS_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var requests, lost, did int
	order := rng.Perm(len(faults))
	for ; did < n && time.Now().Before(until); did++ {
		f := faults[order[did%len(order)]]
		ops := c.round(did, rng, f)
		requests += len(ops)
		for _, op := range ops {
			if op.Output.(answer).outcome == unknown {
				lost++
			}
		}
		c.linearizable(did, f, ops)
		c.working()
		c.equal()
		if t.Failed() {
			t.Fatalf("round %d (%s)", did, f.name)
		}
		if did%100 == 99 {
			t.Logf("%d rounds, %d requests, %d without an answer", did+1, requests, lost)
		}
	}
	t.Logf("%d rounds, %d requests, %d without an answer", did, requests, lost)
}

func TestAServerThatStartsFromItsSnapshotHasTheStateOfTheOthers(t *testing.T) {
	c := newCluster(t, 0, nil)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for n := range 3 {
		c.linearizable(n, faults[0], c.round(n, rng, faults[0])) // enough entries for a snapshot
		for _, a := range c.servers {
			a.Signal(syscall.SIGTERM) // a server that ends in good order takes a snapshot
			<-a.Done
			a.Launch()
			c.working()
		}
		c.equal()
	}
}

// round lets users send requests while a fault befalls the cluster.
func (c *cluster) round(n int, rng *rand.Rand, f fault) []porcupine.Operation {
	c.t.Helper()
	c.working()
	leader := c.leader()
	followers := without(c.servers, leader)
	rng.Shuffle(len(followers), func(i, j int) { followers[i], followers[j] = followers[j], followers[i] })
	history := &record{began: time.Now()}
	var objects []string
	for _, kind := range []string{"plain", "locked", "namespace", "job"} {
		objects = append(objects, fmt.Sprintf("%s/r%d", kind, n))
	}
	ctx, stop := context.WithTimeout(context.Background(), end)
	defer stop()
	var all sync.WaitGroup
	for i := range users {
		u := &user{
			id: i, name: fmt.Sprintf("%d-%d", n, i), servers: c.servers, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), history: history,
			seen: map[string]uint64{}, locks: map[string]string{},
		}
		all.Go(func() { u.run(ctx, objects) })
	}
	await(history.began.Add(struck))
	mend := f.do(c, leader, followers)
	await(history.began.Add(mended))
	mend()
	all.Wait()
	return history.ops
}

// await waits for a moment of a round: the moments are the plan of the test, and nothing
// is expected to have happened by then.
func await(at time.Time) { <-time.After(time.Until(at)) }

// linearizable checks the history of a round.
func (c *cluster) linearizable(n int, f fault, ops []porcupine.Operation) {
	c.t.Helper()
	result, info := porcupine.CheckOperationsVerbose(theModel, ops, time.Minute)
	if result == porcupine.Ok {
		return
	}
	for _, part := range theModel.Partition(ops) {
		if porcupine.CheckOperationsTimeout(theModel, part, time.Minute) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range part {
			ret := "never"
			if op.Output.(answer).outcome != unknown {
				ret = time.Duration(op.Return).String()
			}
			c.t.Logf("%-12s %-12s user %d: %s", time.Duration(op.Call), ret, op.ClientId, theModel.DescribeOperation(op.Input, op.Output))
		}
	}
	file := fmt.Sprintf("%s/drover-nemesis-%d.html", os.TempDir(), n)
	if err := porcupine.VisualizePath(theModel, info, file); err != nil {
		c.t.Log(err)
	}
	c.t.Errorf("round %d (%s): the history is %s; see %s", n, f.name, result, file)
}
