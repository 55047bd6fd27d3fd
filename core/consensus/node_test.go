// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/consensus"
	cmdlog "github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/internal/testkit/leaks"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// words is a state machine that remembers every command. The command "bad" is
// answered with an error.
type words struct {
	mu       sync.Mutex
	said     []string
	restored int
	// gate, if set, holds ApplyBatch up until it is closed.
	gate chan struct{}
	// stuck is set by the command "unreadable": nothing is applied any more.
	stuck bool
}

type errStuck struct{}

func (errStuck) Error() string { return "unreadable word" }
func (errStuck) Fatal()        {}

var errBad = errors.New("bad word")

func (w *words) ApplyBatch(entries []consensus.Entry) []any {
	if w.gate != nil {
		<-w.gate
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := make([]any, len(entries))
	for i, e := range entries {
		if string(e.Data) == "unreadable" || w.stuck {
			w.stuck = true
			answers[i] = errStuck{}
			continue
		}
		if string(e.Data) == "bad" {
			answers[i] = errBad
			continue
		}
		w.said = append(w.said, string(e.Data))
		answers[i] = len(w.said)
	}
	return answers
}

func (w *words) Snapshot() (consensus.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return saved(slices.Clone(w.said)), nil
}

func (w *words) Restore(r io.Reader) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = nil
	w.restored++
	return json.NewDecoder(r).Decode(&w.said)
}

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

type saved []string

func (s saved) WriteTo(_ context.Context, w io.Writer) error {
	return json.NewEncoder(w).Encode([]string(s))
}
func (saved) Release() {}

// eventually waits for a claim to become true.
func eventually(t *testing.T, claim string, true_ func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !true_() {
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %s", claim)
		case <-tick.C:
		}
	}
}

func openNode(t *testing.T, cfg consensus.Config) *consensus.Node {
	t.Helper()
	n, err := consensus.Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return n
}

func closeNode(t *testing.T, n *consensus.Node) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func propose(t *testing.T, n *consensus.Node, word string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	index, _, err := n.Propose(ctx, []byte(word))
	if err != nil {
		t.Fatalf("propose %q: %v", word, err)
	}
	return index
}

func TestAServerAloneLeadsAtOnceAndAnswersWithTheMachinesAnswer(t *testing.T) {
	machine := &words{}
	begin := time.Now()
	n := openNode(t, consensus.Config{NodeID: "a", DataDir: t.TempDir(), Dev: true, Machine: machine})
	defer closeNode(t, n)
	eventually(t, "the only server leads", n.IsLeader)
	t.Logf("open to lead: %v", time.Since(begin))

	index, answer, err := n.Propose(t.Context(), []byte("one"))
	if err != nil || answer != 1 || index == 0 {
		t.Fatalf("got index %d, answer %v, error %v", index, answer, err)
	}
	if said := machine.all(); !slices.Equal(said, []string{"one"}) {
		t.Fatalf("when Propose returned the machine had %v", said)
	}
	eventually(t, "raft counts the command as applied", func() bool { return n.AppliedIndex() >= index })
	servers, _, err := n.Configuration()
	if err != nil || len(servers) != 1 || !servers[0].Leader || !servers[0].Voter || servers[0].ID != "a" {
		t.Fatalf("members %+v, error %v", servers, err)
	}
	if leader, known := n.Leader(); !known || leader.ID != "a" {
		t.Fatalf("leader %+v, known %v", leader, known)
	}
}

func TestAnAnswerThatIsAnErrorComesBackAsTheError(t *testing.T) {
	n := openNode(t, consensus.Config{NodeID: "a", Machine: &words{}})
	defer closeNode(t, n)
	eventually(t, "the only server leads", n.IsLeader)
	if _, _, err := n.Propose(t.Context(), []byte("bad")); !errors.Is(err, errBad) {
		t.Fatalf("got %v, want the machine's error", err)
	}
}

func TestProposeGivesUpWhenItsContextEnds(t *testing.T) {
	machine := &words{gate: make(chan struct{})}
	n := openNode(t, consensus.Config{NodeID: "a", Machine: machine})
	defer closeNode(t, n)
	defer close(machine.gate)
	eventually(t, "the only server leads", n.IsLeader)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := n.Propose(ctx, []byte("x")); !errdefs.IsDeadlineExceeded(err) {
		t.Fatalf("got %v, want deadline exceeded", err)
	}
}

func TestARestartedServerHasItsSnapshotAndTheLogBehindIt(t *testing.T) {
	dir := t.TempDir()
	first := &words{}
	n := openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: first})
	eventually(t, "the only server leads", n.IsLeader)
	for i := range 50 {
		propose(t, n, fmt.Sprint("w", i))
	}
	info, r, err := n.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || int64(len(body)) != info.Size {
		t.Fatalf("read %d bytes of a snapshot of %d: %v", len(body), info.Size, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	propose(t, n, "after")
	closeNode(t, n)

	second := &words{}
	begin := time.Now()
	n = openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: second})
	defer closeNode(t, n)
	eventually(t, "the restarted server leads", n.IsLeader)
	if err := n.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("reopen to ready: %v", time.Since(begin))
	if second.restored != 1 || !slices.Equal(first.all(), second.all()) {
		t.Fatalf("restored %d times; before %v, after %v", second.restored, first.all(), second.all())
	}
}

func TestASnapshotTakenElsewhereReplacesTheState(t *testing.T) {
	source := openNode(t, consensus.Config{NodeID: "a", Machine: &words{}})
	defer closeNode(t, source)
	eventually(t, "the source leads", source.IsLeader)
	propose(t, source, "kept")
	info, r, err := source.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	machine := &words{}
	target := openNode(t, consensus.Config{NodeID: "b", DataDir: t.TempDir(), Dev: true, Machine: machine})
	defer closeNode(t, target)
	eventually(t, "the target leads", target.IsLeader)
	propose(t, target, "gone")
	if err := target.RestoreSnapshot(t.Context(), info, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	propose(t, target, "new")
	if got := machine.all(); !slices.Equal(got, []string{"kept", "new"}) {
		t.Fatalf("after the restore the state is %v", got)
	}
}

func TestWhileLeadingRunsAfterTheBarrierAndEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: &words{}})
	eventually(t, "the only server leads", n.IsLeader)
	propose(t, n, "one")
	closeNode(t, n)

	machine := &words{}
	n = openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: machine})
	defer closeNode(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	began, returned := make(chan []string, 1), make(chan struct{})
	var ended bool
	go func() {
		defer close(returned)
		n.WhileLeading(ctx, func(ctx context.Context) {
			began <- machine.all()
			<-ctx.Done()
			ended = true
		})
	}()
	if said := <-began; !slices.Equal(said, []string{"one"}) {
		t.Fatalf("the term began with the state %v", said)
	}
	cancel()
	<-returned
	if !ended {
		t.Fatal("WhileLeading returned before the term's function did")
	}
}

// cluster is three servers over TCP.
type cluster struct {
	t        *testing.T
	nodes    map[string]*consensus.Node
	machines map[string]*words
	configs  map[string]consensus.Config
}

func openCluster(t *testing.T) *cluster {
	c := &cluster{t: t, nodes: map[string]*consensus.Node{}, machines: map[string]*words{}, configs: map[string]consensus.Config{}}
	var members []consensus.Server
	for _, id := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, consensus.Server{ID: id, Address: l.Addr().String(), Voter: true})
		// A leader is not lost because a machine with much to do stands still for a moment.
		c.configs[id] = consensus.Config{NodeID: id, DataDir: t.TempDir(), Dev: true, Listener: l, HeartbeatTimeout: 3 * time.Second}
	}
	for id, cfg := range c.configs {
		cfg.Bootstrap = members
		c.configs[id] = cfg
		c.open(id)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			closeNode(t, n)
		}
	})
	return c
}

func (c *cluster) open(id string) {
	cfg := c.configs[id]
	c.machines[id] = &words{}
	cfg.Machine = c.machines[id]
	c.nodes[id] = openNode(c.t, cfg)
}

func (c *cluster) leader() string {
	c.t.Helper()
	var leader string
	eventually(c.t, "one server leads", func() bool {
		for id, n := range c.nodes {
			if n.IsLeader() && n.Barrier(c.t.Context()) == nil {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

func (c *cluster) follower() string {
	leader := c.leader()
	for id := range c.nodes {
		if id != leader {
			return id
		}
	}
	return ""
}

func TestAFollowerNamesTheLeaderInItsRefusal(t *testing.T) {
	c := openCluster(t)
	leader, follower := c.leader(), c.follower()
	eventually(t, "the follower knows the leader", func() bool {
		l, known := c.nodes[follower].Leader()
		return known && l.ID == leader
	})
	_, _, err := c.nodes[follower].Propose(t.Context(), []byte("x"))
	var refusal *consensus.NotLeaderError
	if !errdefs.IsUnavailable(err) || !errors.As(err, &refusal) || refusal.Leader.ID != leader {
		t.Fatalf("got %v, want a refusal that names %s", err, leader)
	}
	if !cmdlog.NotLeader(err) {
		t.Errorf("%v does not say that nothing was proposed", err)
	}
}

func TestAServerLeadsOnceItHasAppliedTheLogAndSaysWhenThatChanges(t *testing.T) {
	c := openCluster(t)
	first := c.leader()
	if c.nodes[first].Leads() {
		t.Error("a server leads before it has applied what was committed before its term")
	}
	led := map[string]chan struct{}{}
	for id, n := range c.nodes {
		begun := make(chan struct{}, 100)
		led[id] = begun
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.WhileLeading(ctx, func(ctx context.Context) { begun <- struct{}{}; <-ctx.Done() })
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	<-led[first]
	if !c.nodes[first].Leads() || c.nodes[first].LastContact() != 0 {
		t.Errorf("the leader leads: %v; it heard of the leader %v ago", c.nodes[first].Leads(), c.nodes[first].LastContact())
	}
	to := c.follower()
	if contact := c.nodes[to].LastContact(); c.nodes[to].Leads() || contact <= 0 || contact > time.Minute {
		t.Errorf("a follower leads: %v; it heard of the leader %v ago", c.nodes[to].Leads(), contact)
	}
	changed := c.nodes[first].LeaderChanged()
	if err := c.nodes[first].TransferLeadership(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	<-changed
	<-led[to]
	if c.nodes[first].Leads() || !c.nodes[to].Leads() {
		t.Errorf("after the transfer the old leader leads: %v, the new one: %v", c.nodes[first].Leads(), c.nodes[to].Leads())
	}
}

func TestAcknowledgedWritesSurviveTheLossOfTheLeader(t *testing.T) {
	c := openCluster(t)
	old := c.leader()
	var acknowledged []string
	for i := range 30 {
		word := fmt.Sprint("w", i)
		propose(t, c.nodes[old], word)
		acknowledged = append(acknowledged, word)
	}
	closeNode(t, c.nodes[old])
	delete(c.nodes, old)

	begin := time.Now()
	next := c.leader()
	propose(t, c.nodes[next], "after")
	t.Logf("leader lost to first write: %v", time.Since(begin))
	if got := c.machines[next].all(); !slices.Equal(got, append(acknowledged, "after")) {
		t.Fatalf("the new leader has %v", got)
	}
}

func TestAServerThatStartsHasCaughtUpOnceItHasAppliedWhatWasCommittedBefore(t *testing.T) {
	c := openCluster(t)
	leader := c.leader()
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprint("w", i))
		propose(t, c.nodes[leader], all[i])
	}
	for id, n := range c.nodes {
		eventually(t, "every server has caught up", n.CaughtUp)
		closeNode(t, n)
		delete(c.nodes, id)
	}
	reopen := func(id string) {
		cfg := c.configs[id]
		l, err := net.Listen("tcp", cfg.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listener = l
		c.configs[id] = cfg
		c.open(id)
	}
	begin := time.Now()
	reopen("a")
	// Its log tells nobody what of it was committed.
	if n := c.nodes["a"]; n.CaughtUp() || n.LastContact() > time.Since(begin) {
		t.Errorf("a server without the others has caught up: %v; it heard of a leader %v ago", n.CaughtUp(), n.LastContact())
	}
	reopen("b")
	eventually(t, "the server has caught up", c.nodes["a"].CaughtUp)
	eventually(t, "its state is whole", func() bool { return slices.Equal(c.machines["a"].all(), all) })
}

func TestAddedAndRemovedServersFollowOrStop(t *testing.T) {
	c := openCluster(t)
	leader := c.leader()
	propose(t, c.nodes[leader], "before")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.configs["d"] = consensus.Config{NodeID: "d", DataDir: t.TempDir(), Dev: true, Listener: l, HeartbeatTimeout: 3 * time.Second}
	c.open("d")
	if err := c.nodes[leader].AddServer(t.Context(), consensus.Server{ID: "d", Address: l.Addr().String(), Voter: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new server has the old entry", func() bool { return slices.Equal(c.machines["d"].all(), []string{"before"}) })

	if err := c.nodes[leader].RemoveServer(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	closeNode(t, c.nodes["d"])
	delete(c.nodes, "d")
	servers, _, err := c.nodes[leader].Configuration()
	if err != nil || len(servers) != 3 {
		t.Fatalf("members %+v, error %v", servers, err)
	}
	if err := c.nodes[leader].TransferLeadership(t.Context(), "nobody"); !errdefs.IsNotFound(err) {
		t.Fatalf("handing the lead to an unknown server gave %v", err)
	}
	to := c.follower()
	if err := c.nodes[leader].TransferLeadership(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the named server leads", c.nodes[to].IsLeader)
}

func TestTheLeadIsNotHandedToAServerWithoutAVote(t *testing.T) {
	c := openCluster(t)
	leader, to := c.leader(), c.follower()
	if err := c.nodes[leader].DemoteServer(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := c.nodes[leader].TransferLeadership(t.Context(), to); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("handing the lead to a server without a vote gave %v", err)
	}
	propose(t, c.nodes[leader], "still leads")
}

func TestALeaderThatIsRemovedCanBeAddedAgain(t *testing.T) {
	c := openCluster(t)
	old := c.leader()
	if err := c.nodes[old].RemoveServer(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server leads", func() bool { return c.leader() != old })
	leader := c.nodes[c.leader()]
	if err := leader.AddServer(t.Context(), consensus.Server{ID: old, Address: c.configs[old].Listener.Addr().String(), Voter: true}); err != nil {
		t.Fatal(err)
	}
	propose(t, leader, "after")
	eventually(t, "it has what was written since", func() bool { return slices.Equal(c.machines[old].all(), []string{"after"}) })
}

func TestNothingIsWrittenOnceTheStateMachineCannotGoOn(t *testing.T) {
	dir := t.TempDir()
	open := func() (*consensus.Node, *words, chan error) {
		w, told := &words{}, make(chan error, 10)
		n, err := consensus.Open(consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: w, Fatal: func(err error) { told <- err }})
		if err != nil {
			t.Fatal(err)
		}
		return n, w, told
	}
	n, _, told := open()
	leads := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { n.WhileLeading(ctx, func(context.Context) { close(leads) }) })
	<-leads
	for _, word := range []string{"one", "unreadable"} {
		_, _, err := n.Propose(t.Context(), []byte(word))
		if (word == "one") != (err == nil) {
			t.Errorf("%s: %v", word, err)
		}
	}
	end := n.LastIndex()
	if _, _, err := n.Propose(t.Context(), []byte("two")); !errors.Is(err, errStuck{}) {
		t.Error(err)
	}
	if err := <-told; !errors.Is(err, errStuck{}) || len(told) != 0 {
		t.Errorf("told %v, and %d times more", err, len(told))
	}
	if n.VerifyLeader(t.Context()) == nil || n.Barrier(t.Context()) == nil {
		t.Error("it vouches for a state that is not the newest")
	}
	if n.LastIndex() != end {
		t.Error("something was written")
	}
	cancel()
	following.Wait()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}

	n, w, told := open() // from the log, without a caller
	ctx, cancel = context.WithCancel(t.Context())
	following.Go(func() { n.WhileLeading(ctx, func(context.Context) { t.Error("it leads") }) })
	<-told
	if got := w.all(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("said %q", got)
	}
	cancel()
	following.Wait()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// unsaved is a machine whose snapshots panic while it is broken.
type unsaved struct {
	words
	broken atomic.Bool
}

func (u *unsaved) Snapshot() (consensus.Snapshot, error) {
	s, err := u.words.Snapshot()
	return unsavedWords{s, u}, err
}

type unsavedWords struct {
	consensus.Snapshot
	of *unsaved
}

func (s unsavedWords) WriteTo(ctx context.Context, w io.Writer) error {
	if s.of.broken.Load() {
		panic("a defect")
	}
	return s.Snapshot.WriteTo(ctx, w)
}

func TestASnapshotThatPanicsFailsAloneAndTheNextOneIsTaken(t *testing.T) {
	machine := &unsaved{}
	n := openNode(t, consensus.Config{NodeID: "a", DataDir: t.TempDir(), Dev: true, Machine: machine})
	defer closeNode(t, n)
	eventually(t, "the only server leads", n.IsLeader)
	propose(t, n, "before")
	machine.broken.Store(true)
	if _, _, err := n.TakeSnapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "the snapshot panicked") {
		t.Fatalf("got %v", err)
	}
	propose(t, n, "between")
	machine.broken.Store(false)
	_, r, err := n.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); err != nil || !strings.Contains(string(body), "between") {
		t.Errorf("the snapshot is %q, %v", body, err)
	}
}
