// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// cluster is several Dispatchers in one process, on one log.
type cluster struct {
	t       *testing.T
	servers []*member

	mu      sync.Mutex
	leader  int // -1 while there is none
	entries [][]byte
	stop    context.CancelFunc // ends the lead
}

// member is one of its servers.
type member struct {
	*servers
	c       *cluster
	name    string
	machine *fsm.FSM
	applied int
	lags    bool        // it applies nothing
	cut     atomic.Bool // it does not reach the leader
	deaf    atomic.Bool // it does not hear the leader's answers
	kill    context.CancelFunc
}

func newCluster(t *testing.T, ctx context.Context, n int, edits ...func(*dispatch.Config)) *cluster {
	c := &cluster{t: t, leader: -1}
	for i := range n {
		m := &member{c: c, name: fmt.Sprintf("server-%d", i), servers: &servers{store: state.New(), slept: &atomic.Int64{}}}
		m.machine = fsm.New(m.store, hclog.NewNullLogger())
		cfg := dispatch.Config{
			Now:   func() time.Time { return time.Now().Add(time.Duration(m.slept.Load())) },
			Store: m.store, Raft: m, Logger: hclog.NewNullLogger(), Region: "global", ServerID: m.name, Leader: wire{m}, Peers: wire{m},
			NewID:     func() string { return "eval" },
			NodeEvals: func(*state.View, *model.Node, time.Time) []*model.Evaluation { return nil },
		}
		for _, edit := range edits {
			edit(&cfg)
		}
		m.Dispatcher = dispatch.New(cfg)
		c.servers = append(c.servers, m)
		var alive context.Context
		alive, m.kill = context.WithCancel(ctx)
		go m.Run(alive)
	}
	c.lead(ctx, 0)
	c.write(&fsm.UpsertJob{Job: job()})
	return c
}

// lead makes a server the leader, which begins a term.
func (c *cluster) lead(ctx context.Context, i int) {
	c.mu.Lock()
	if c.leader >= 0 {
		c.stop()
		c.servers[c.leader].Begin("")
	}
	c.leader = i
	ctx, c.stop = context.WithCancel(ctx)
	c.mu.Unlock()
	go c.servers[i].Lead(ctx)
	term := fmt.Sprintf("term-%d-of-%d", len(c.entries), i)
	c.write(&fsm.BeginTerm{ClusterID: "c", TermID: term})
	c.servers[i].Begin(term)
	synctest.Wait()
}

func (c *cluster) write(cmd fsm.Command) {
	c.t.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := c.servers[c.leader].Propose(c.t.Context(), data); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

func (c *cluster) place(nodeID string, ids ...string) {
	c.t.Helper()
	c.write(placement(c.servers[c.leader].store.View(), nodeID, ids...))
}

const firstIndex = 10

// Propose implements dispatch.Raft.
func (m *member) Propose(_ context.Context, command []byte) (uint64, any, error) {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader < 0 || c.servers[c.leader] != m {
		return 0, nil, errdefs.Unavailablef("not the leader")
	}
	c.entries = append(c.entries, command)
	var answer any
	for _, s := range c.servers {
		if a := s.apply(); s == m {
			answer = a
		}
	}
	if err, failed := answer.(error); failed {
		return 0, nil, err
	}
	return uint64(firstIndex + len(c.entries) - 1), answer, nil
}

// apply applies what is new, and returns the answer to the last entry.
func (m *member) apply() (answer any) {
	for !m.lags && m.applied < len(m.c.entries) {
		answer = m.machine.ApplyBatch([]fsm.Entry{{Index: uint64(firstIndex + m.applied), Data: m.c.entries[m.applied]}})[0]
		m.applied++
	}
	return answer
}

func (m *member) lag(lags bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.lags = lags
	m.apply()
}

func (m *member) VerifyLeader(context.Context) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.leader < 0 || m.c.servers[m.c.leader] != m {
		return errdefs.Unavailablef("not the leader")
	}
	return nil
}

// wire carries calls between the servers.
type wire struct{ *member }

func (m wire) Node(server, nodeID string) (rpc.Node, error) {
	for _, s := range m.c.servers {
		if s.name == server {
			if n, attached := s.Attached(nodeID); attached {
				return n, nil
			}
		}
	}
	return nil, errdefs.Unavailablef("%s does not hear %s", server, nodeID)
}

// ask asks the leader.
func ask[T any](m wire, do func(dispatch.Leader) (T, error)) (T, error) {
	var none T
	m.c.mu.Lock()
	i := m.c.leader
	m.c.mu.Unlock()
	if i < 0 || m.cut.Load() {
		return none, errdefs.Unavailablef("no leader")
	}
	out, err := do(m.c.servers[i].Leading())
	if m.deaf.Load() {
		return none, errdefs.Unavailablef("the answer is lost")
	}
	return out, err
}

func (m wire) Report(ctx context.Context, r dispatch.Report) (dispatch.ReportAnswer, error) {
	return ask(m, func(l dispatch.Leader) (dispatch.ReportAnswer, error) { return l.Report(ctx, r) })
}

func (m wire) Confirm(ctx context.Context) (model.ClusterPoint, error) {
	return ask(m, func(l dispatch.Leader) (model.ClusterPoint, error) { return l.Confirm(ctx) })
}

func (m wire) Holder(ctx context.Context, id string) (string, error) {
	return ask(m, func(l dispatch.Leader) (string, error) { return l.Holder(ctx, id) })
}

func (m wire) Register(ctx context.Context, server string, node *model.Node) (dispatch.Registered, error) {
	return ask(m, func(l dispatch.Leader) (dispatch.Registered, error) { return l.Register(ctx, server, node) })
}

func (m wire) Change(ctx context.Context, server string, change *model.NodeChange) (dispatch.Registered, error) {
	return ask(m, func(l dispatch.Leader) (dispatch.Registered, error) { return l.Change(ctx, server, change) })
}

func (m wire) Ready(ctx context.Context, server string, id rpc.Identity) (uint64, error) {
	return ask(m, func(l dispatch.Leader) (uint64, error) { return l.Ready(ctx, server, id) })
}

func (m wire) Away(ctx context.Context, server string, id rpc.Identity) error {
	_, err := ask(m, func(l dispatch.Leader) (int, error) { return 0, l.Away(ctx, server, id) })
	return err
}

func (m wire) UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	return ask(m, func(l dispatch.Leader) (rpc.UpdateAnswer, error) { return l.UpdateAllocs(ctx, id, reports) })
}

func (m wire) ClaimVolume(ctx context.Context, id rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	return ask(m, func(l dispatch.Leader) (rpc.VolumeGrant, error) { return l.ClaimVolume(ctx, id, q) })
}

func (m wire) PutDriverSchemas(ctx context.Context, id rpc.Identity, bodies [][]byte) (uint64, error) {
	return ask(m, func(l dispatch.Leader) (uint64, error) { return l.PutDriverSchemas(ctx, id, bodies) })
}

// agent is a node that moves between servers.
type agent struct {
	id      string
	session uint64
	seen    model.ClusterPoint
	end     context.CancelFunc // ends its session
}

func (a *agent) identity() rpc.Identity {
	id := identity(a.id)
	id.Instance, id.Session, id.Seen = "process of "+a.id, a.session, a.seen
	return id
}

// join begins a session with a server.
func (a *agent) join(t *testing.T, ctx context.Context, m *member) (pushed chan *rpc.Assignments, ended chan error) {
	t.Helper()
	a.register(t, ctx, m)
	return a.attach(ctx, m)
}

func (a *agent) register(t *testing.T, ctx context.Context, m *member) {
	t.Helper()
	a.session++
	n := node(a.id)
	n.Instance, n.Session = a.identity().Instance, a.session
	if _, err := m.Register(ctx, n); err != nil {
		t.Fatalf("%s registers with %s: %v", a.id, m.name, err)
	}
}

func (a *agent) attach(ctx context.Context, m *member) (pushed chan *rpc.Assignments, ended chan error) {
	ctx, a.end = context.WithCancel(ctx)
	pushed, ended = make(chan *rpc.Assignments, 100), make(chan error, 1)
	id := a.identity()
	go func() {
		ended <- m.Attach(ctx, id, nil, func(x *rpc.Assignments) error { pushed <- x; return nil })
	}()
	return pushed, ended
}

// beat sends heartbeats to a server for a time.
func (a *agent) beat(t *testing.T, m *member, d time.Duration) {
	t.Helper()
	for range d / time.Second {
		time.Sleep(time.Second)
		if _, err := m.Beat(t.Context(), a.identity()); err != nil {
			t.Fatalf("%s beats at %s: %v", a.id, m.name, err)
		}
	}
}

func (c *cluster) status(id string) string {
	synctest.Wait()
	return c.servers[c.leader].store.View().NodeByID(id).Status
}

// inCluster runs a test with three servers, of which the first leads, on a fake clock.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster, ctx context.Context), edits ...func(*dispatch.Config)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		test(t, newCluster(t, ctx, 3, edits...), ctx)
	})
}

func TestANodeOfAFollowerIsReadyAndCausesNoLogEntryWhileItBeats(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		pushed, _ := a.join(t, ctx, c.servers[1])
		if x := <-pushed; !x.Full || !x.Confirmed {
			t.Fatalf("first %+v", x)
		}
		before := c.writes()
		a.beat(t, c.servers[1], time.Minute)
		if got := c.writes() - before; got != 0 || c.status(idN1) != model.NodeStatusReady {
			t.Errorf("a healthy node caused %d log entries, and is %s", got, c.status(idN1))
		}
		c.place(idN1, "a1")
		synctest.Wait()
		last := &rpc.Assignments{}
		for len(pushed) > 0 {
			last = <-pushed
		}
		if !last.Confirmed || !slices.Equal(ids(last), []string{"a1"}) {
			t.Errorf("then %+v", last)
		}
		time.Sleep(11 * time.Second) // it is silent, with a session that looks alive
		if got := c.status(idN1); got != model.NodeStatusDown {
			t.Errorf("a silent node is %s", got)
		}
		if _, err := c.servers[1].Beat(ctx, a.identity()); err != nil || c.status(idN1) != model.NodeStatusReady {
			t.Errorf("when it beats again: %v, %s", err, c.status(idN1))
		}
		a.beat(t, c.servers[1], time.Minute)
		if got := c.status(idN1); got != model.NodeStatusReady {
			t.Errorf("later it is %s", got)
		}
	})
}

func TestAServerThatDiesTakesOnlyThoseNodesWithItThatAppearNowhereElse(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		moves, stays := &agent{id: idN1}, &agent{id: idN2}
		moves.join(t, ctx, c.servers[1])
		stays.join(t, ctx, c.servers[1])
		synctest.Wait()
		c.servers[1].kill()
		time.Sleep(15 * time.Second) // the leader missed the server 8 s ago, and would have marked them
		if c.status(idN1) != model.NodeStatusReady || c.status(idN2) != model.NodeStatusReady {
			t.Fatalf("they are %s and %s before they could move", c.status(idN1), c.status(idN2))
		}
		moves.join(t, ctx, c.servers[2])
		moves.beat(t, c.servers[2], 10*time.Second)
		if c.status(idN1) != model.NodeStatusReady || c.status(idN2) != model.NodeStatusDown {
			t.Errorf("the one that moved is %s, the other %s", c.status(idN1), c.status(idN2))
		}
	})
}

func TestAServerThatIsCutOffGrantsNoLeaseThatTheLeaderDoesNotKnow(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		a.beat(t, c.servers[1], 3*time.Second)
		c.servers[1].cut.Store(true)
		begun := time.Now()
		for {
			time.Sleep(time.Second)
			_, err := c.servers[1].Beat(ctx, a.identity())
			if c.status(idN1) != model.NodeStatusReady {
				t.Fatal("it is marked while it beats and is answered")
			}
			if errdefs.IsUnavailable(err) {
				break
			}
		}
		if d := time.Since(begun); d < 8*time.Second || d > 14*time.Second {
			t.Errorf("it was turned away after %s", d)
		}
		a.join(t, ctx, c.servers[2]) // so it moves
		a.beat(t, c.servers[2], 20*time.Second)
		c.servers[1].cut.Store(false) // what the server knows is old
		a.beat(t, c.servers[2], 20*time.Second)
		if got := c.status(idN1); got != model.NodeStatusReady {
			t.Errorf("it is %s", got)
		}
		if _, attached := c.servers[1].Attached(idN1); attached {
			t.Error("the server keeps the old session")
		}
	})
}

func TestAFollowerThatSleptMarksNobodyForItsOwnSleep(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		a.beat(t, c.servers[1], 3*time.Second)
		c.servers[1].sleep(time.Minute)
		a.beat(t, c.servers[1], 20*time.Second)
		if got := c.status(idN1); got != model.NodeStatusReady {
			t.Errorf("it is %s", got)
		}
	})
}

func TestANewLeaderHearsOfAllSessionsAndConfirmsAnew(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a, dead := &agent{id: idN1}, &agent{id: idN2}
		pushed, _ := a.join(t, ctx, c.servers[1])
		dead.join(t, ctx, c.servers[1])
		a.beat(t, c.servers[1], 5*time.Second)
		c.lead(ctx, 2)
		a.beat(t, c.servers[1], 2*time.Second)
		if server, err := (wire{c.servers[0]}).Holder(ctx, idN1); err != nil || server != "server-1" {
			t.Errorf("the new leader believes it at %q, %v", server, err)
		}
		for len(pushed) > 0 {
			<-pushed
		}
		c.place(idN1, "a1")
		if x := <-pushed; len(x.Set) != 1 || x.Confirmed {
			t.Errorf("what the new leader writes comes first as %+v", x)
		}
		if x := <-pushed; !x.Full || !x.Confirmed || x.Lost || !slices.Equal(ids(x), []string{"a1"}) {
			t.Errorf("and then as %+v", x)
		}
		a.beat(t, c.servers[1], 20*time.Second)
		if c.status(idN1) != model.NodeStatusReady || c.status(idN2) != model.NodeStatusDown {
			t.Errorf("the one that beats is %s, the silent one %s", c.status(idN1), c.status(idN2))
		}
	})
}

func TestANodeThatMovesToAServerThatLagsIsToldNothingOldAsConfirmed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.register(t, ctx, c.servers[2])
		c.servers[2].lag(true)
		c.place(idN1, "a1")
		pushed, _ := a.attach(ctx, c.servers[1])
		x := <-pushed
		a.seen = model.ClusterPoint{ClusterID: x.ClusterID, TermID: x.TermID, Index: x.Index}
		a.end()
		pushed, _ = a.attach(ctx, c.servers[2])
		x = <-pushed // after the server has waited in vain
		if x.Confirmed || x.Index >= a.seen.Index {
			t.Fatalf("the server that lags says %+v to a node that has seen %d", x, a.seen.Index)
		}
		c.servers[2].lag(false)
		for !x.Confirmed {
			x = <-pushed
		}
		if !x.Full || x.Lost || x.Index < a.seen.Index || !slices.Equal(ids(x), []string{"a1"}) {
			t.Errorf("when it has caught up it says %+v", x)
		}
		if list, err := c.servers[2].FetchAllocs(ctx, a.identity(), []string{"a1"}); err != nil || len(list) != 1 {
			t.Errorf("fetched %d, %v", len(list), err)
		}
	})
}

func TestAReadForANodeWaitsForWhatTheNodeHasSeenElsewhere(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		synctest.Wait()
		c.servers[2].lag(true)
		c.place(idN1, "a1")
		a.seen = c.servers[1].store.View().Cluster().At(c.servers[1].store.View().Index())
		time.AfterFunc(time.Second, func() { c.servers[2].lag(false) })
		list, err := c.servers[2].FetchAllocs(ctx, a.identity(), []string{"a1"})
		if err != nil || len(list) != 1 {
			t.Errorf("fetched %d, %v", len(list), err)
		}
	})
}

func TestACallForANodeFindsTheServerThatHearsIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		gone := &agent{id: idN2}
		gone.join(t, ctx, c.servers[1])
		synctest.Wait()
		gone.end()
		time.Sleep(time.Second)
		for _, m := range c.servers {
			if _, err := m.Dispatcher.Node(idN1); err != nil {
				t.Errorf("through %s: %v", m.name, err)
			}
			if _, err := m.Dispatcher.Node(idN2); !errdefs.IsUnavailable(err) {
				t.Errorf("one without a session, through %s: %v", m.name, err)
			}
			if _, err := m.Dispatcher.Node(idN9); !errdefs.IsNotFound(err) {
				t.Errorf("an unknown one, through %s: %v", m.name, err)
			}
		}
		c.servers[2].cut.Store(true)
		if _, err := c.servers[2].Dispatcher.Node(idN1); !errdefs.IsUnavailable(err) {
			t.Errorf("without a leader: %v", err)
		}
	})
}

func TestTwoAgentsWithOneIdentityAreToldApartAlsoAtTwoServers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		synctest.Wait()
		before := c.writes()
		n := node(idN1)
		n.Instance, n.Session = "a copy", 1
		for range 20 {
			a.beat(t, c.servers[1], time.Second)
			if _, err := c.servers[2].Register(ctx, n); !errdefs.IsAlreadyExists(err) {
				t.Fatalf("register: %v", err)
			}
			if _, err := c.servers[2].Beat(ctx, rpc.Identity{NodeID: idN1, SecretID: n.SecretID, Instance: "a copy", Session: 1}); !errdefs.IsAlreadyExists(err) {
				t.Fatalf("beat: %v", err)
			}
		}
		if got := c.writes(); got != before {
			t.Errorf("%d entries were written", got-before)
		}
		a.end()
		time.Sleep(time.Second)
		if _, err := c.servers[2].Register(ctx, n); err != nil {
			t.Errorf("when the first is gone: %v", err)
		}
	})
}

func TestAReportOfAllocsWhoseAnswerIsLostIsAppliedOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		c.place(idN1, "a1")
		report := []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusRunning}}
		c.servers[1].deaf.Store(true)
		if _, err := c.servers[1].UpdateAllocs(ctx, a.identity(), report); !errdefs.IsUnavailable(err) {
			t.Fatalf("without the answer: %v", err)
		}
		after := c.writes()
		for _, m := range []*member{c.servers[2], c.servers[0]} { // by other servers, and a new leader
			if _, err := m.UpdateAllocs(ctx, a.identity(), report); err != nil {
				t.Error(err)
			}
			c.lead(ctx, 2)
			after++ // its term
		}
		if got := c.writes(); got != after {
			t.Errorf("%d entries, not %d", got, after)
		}
	})
}

func TestManyNodesThatReturnAtOnceAreSpread(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		var hints []time.Duration
		for i := range 50 {
			n := node(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
			if _, err := c.servers[1].Register(ctx, n); err != nil {
				if !errdefs.IsResourceExhausted(err) {
					t.Fatal(err)
				}
				hints = append(hints, errdefs.RetryAfter(err))
			}
		}
		if len(hints) != 40 || hints[0] >= hints[20] || hints[39] < 3*time.Second || hints[39] > 5*time.Second {
			t.Errorf("%d were sent away, for %v", len(hints), hints)
		}
		time.Sleep(5 * time.Second)
		if _, err := c.servers[1].Register(ctx, node("00000000-0000-0000-0000-000000000049")); err != nil {
			t.Error(err)
		}
	}, func(cfg *dispatch.Config) { cfg.MaxReturns = 10 })
}

func TestARegistrationThatChangesNothingIsNotWritten(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster, ctx context.Context) {
		a := &agent{id: idN1}
		a.join(t, ctx, c.servers[1])
		before := c.writes()
		for _, m := range c.servers {
			a.join(t, ctx, m)
		}
		if got := c.writes(); got != before {
			t.Errorf("%d entries for a node that moves", got-before)
		}
		n := node(idN1)
		n.Instance, n.Session, n.Attributes = a.identity().Instance, a.session, map[string]string{"new": "1"}
		if _, err := c.servers[1].Register(ctx, n); err != nil || c.writes() != before+1 {
			t.Errorf("a change was written %d times, %v", c.writes()-before, err)
		}
	})
}

func TestAReportThatNoServerCanHaveSentIsRefused(t *testing.T) {
	huge := strings.Repeat("x", 1000)
	for name, r := range map[string]dispatch.Report{
		"no server":        {Boot: "b", Number: 1, Full: true},
		"a long name":      {Server: huge, Full: true},
		"a long id":        {Server: "s", Full: true, Heard: []dispatch.HeardNode{{NodeID: huge}}},
		"heard tomorrow":   {Server: "s", Full: true, Late: []dispatch.NodeAge{{NodeID: "n", Age: -1}}},
		"leaves tomorrow":  {Server: "s", Full: true, Left: []dispatch.NodeAge{{NodeID: "n", Age: math.MinInt64}}},
		"too many entries": {Server: "s", Full: true, Heard: make([]dispatch.HeardNode, 300_000)},
	} {
		if err := r.Validate(); !errdefs.IsInvalidArgument(err) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (dispatch.Report{Server: "s", Full: true, Heard: []dispatch.HeardNode{{NodeID: "n", Session: math.MaxUint64}}, Late: []dispatch.NodeAge{{NodeID: "n", Age: math.MaxInt64}}}).Validate(); err != nil {
		t.Error(err)
	}
}
