// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log applies what is proposed at once.
type log struct {
	mu      sync.Mutex
	machine *fsm.FSM
	index   uint64
	writes  atomic.Int64
	// hold, if set, delays each proposal until it can be read from.
	hold chan struct{}
	// slow is how long each proposal takes, in ns.
	slow atomic.Int64
	// before, if set, is applied before the next proposal; written are all commands.
	before  fsm.Command
	written []fsm.Command
}

func (l *log) Propose(_ context.Context, command []byte) (uint64, any, error) {
	if l.hold != nil {
		<-l.hold
	}
	time.Sleep(time.Duration(l.slow.Load()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		first, err := fsm.Encode(l.before)
		if err != nil {
			return 0, nil, err
		}
		l.before = nil
		l.index++
		l.machine.ApplyBatch([]fsm.Entry{{Index: l.index, Data: first}})
	}
	l.index++
	l.writes.Add(1)
	if c, err := fsm.Decode(command); err == nil {
		l.written = append(l.written, c)
	}
	answer := l.machine.ApplyBatch([]fsm.Entry{{Index: l.index, Data: command}})[0]
	if err, failed := answer.(error); failed {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

func (l *log) VerifyLeader(context.Context) error { return nil }

func (l *log) write(t *testing.T, cmd fsm.Command) {
	t.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Propose(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}

type servers struct {
	*dispatch.Dispatcher
	log   *log
	store *state.Store
	slept *atomic.Int64
}

// sleep makes it later than the timers of the servers have noticed, as when their
// process is stopped.
func (s *servers) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// start runs a dispatcher, with its leases watched, until the test ends.
func start(t *testing.T, ctx context.Context, edits ...func(*dispatch.Config)) *servers {
	store := state.New()
	lifecycles.Check(t, store)
	l := &log{machine: fsm.New(store, hclog.NewNullLogger()), index: 10}
	var ids, slept atomic.Int64
	cfg := dispatch.Config{
		Now:   func() time.Time { return time.Now().Add(time.Duration(slept.Load())) },
		Store: store, Raft: l, Logger: hclog.NewNullLogger(), TTL: 8 * time.Second, Region: "global",
		NewID: func() string { return fmt.Sprintf("eval-%d", ids.Add(1)) },
		OpenVariable: func(_ *state.View, row *model.Variable) (map[string]string, error) {
			return map[string]string{"data": string(row.Data)}, nil
		},
		NodeEvals: func(_ *state.View, n *model.Node, now time.Time) []*model.Evaluation {
			return []*model.Evaluation{{
				ID: fmt.Sprintf("node-eval-%d", ids.Add(1)), Namespace: "default", JobID: "web", Type: model.JobTypeService,
				NodeID: n.ID, TriggeredBy: model.EvalTriggerNodeUpdate, Status: model.EvalStatusPending, CreateTime: now.UnixNano(),
			}}
		},
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	d := dispatch.New(cfg)
	go d.Run(ctx)
	go d.Lead(ctx)
	l.write(t, &fsm.UpsertJob{Job: job()})
	return &servers{Dispatcher: d, log: l, store: store, slept: &slept}
}

func job() *model.Job {
	return &model.Job{
		ID: "web", Name: "web", Namespace: "default", Type: model.JobTypeService, Priority: 50, NodePool: "default",
		Status:     model.JobStatusPending,
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Identity: &model.WorkloadIdentity{Name: "default"}}}}},
	}
}

func node(id string) *model.Node {
	return &model.Node{ID: id, SecretID: "secret-" + id, Name: id, Datacenter: "dc1"}
}

func identity(id string) rpc.Identity { return rpc.Identity{NodeID: id, SecretID: "secret-" + id} }

func (s *servers) register(t *testing.T, id string) {
	t.Helper()
	if _, err := s.Register(t.Context(), node(id)); err != nil {
		t.Fatal(err)
	}
}

func (s *servers) place(t *testing.T, nodeID string, ids ...string) {
	t.Helper()
	s.log.write(t, placement(s.store.View(), nodeID, ids...))
}

// placement places allocs on a node.
func placement(view *state.View, nodeID string, ids ...string) fsm.Command {
	plan := &model.Plan{Namespace: "default", JobID: "web", SnapshotIndex: view.Index()}
	version := view.JobByID("default", "web").Version
	for _, id := range ids {
		plan.Place = append(plan.Place, &model.Allocation{ID: id, JobVersion: version, TaskGroup: "g", Name: "web.g[0]", NodeID: nodeID})
	}
	return &fsm.ApplyPlan{Plan: plan, VerifiedIndex: view.Index()}
}

// attach returns what is pushed to the node.
func (s *servers) attach(ctx context.Context, id string, n rpc.Node) (pushed chan *rpc.Assignments, ended chan error) {
	pushed, ended = make(chan *rpc.Assignments, 100), make(chan error, 1)
	go func() {
		ended <- s.Attach(ctx, identity(id), n, func(a *rpc.Assignments) error {
			pushed <- a
			return nil
		})
	}()
	return pushed, ended
}

func ids(a *rpc.Assignments) []string {
	var out []string
	for _, x := range a.Set {
		out = append(out, x.AllocID)
	}
	slices.Sort(out)
	return out
}

// inBubble runs a test on a fake clock.
func inBubble(t *testing.T, test func(t *testing.T, s *servers, ctx context.Context), edits ...func(*dispatch.Config)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		test(t, start(t, ctx, edits...), ctx)
	})
}

func TestANodeGetsEverythingFirstAndThenOnlyWhatServersChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		s.place(t, idN1, "a1", "a2")
		s.place(t, idN2, "b1")
		pushed, _ := s.attach(ctx, idN1, nil)
		first := <-pushed
		if !first.Full || !first.Confirmed || !slices.Equal(ids(first), []string{"a1", "a2"}) {
			t.Fatalf("first push %+v", first)
		}
		synctest.Wait()
		for len(pushed) > 0 {
			if again := <-pushed; !again.Full {
				t.Fatalf("without a change came %+v", again)
			}
		}

		if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusRunning}}); err != nil {
			t.Fatal(err)
		}
		s.place(t, idN2, "b2")
		synctest.Wait()
		if len(pushed) > 0 {
			t.Fatalf("what the node itself reported, or another node's alloc, came back: %+v", <-pushed)
		}
		s.place(t, idN1, "a3")
		delta := <-pushed
		if delta.Full || !slices.Equal(ids(delta), []string{"a3"}) || delta.Index <= first.Index {
			t.Fatalf("after a placement came %+v", delta)
		}
		if len(delta.Fresh) != 1 || delta.Fresh[0].ID != "a3" || delta.Fresh[0].Job == nil || len(first.Fresh) > 0 {
			t.Errorf("with it came %v, at first %v", delta.Fresh, first.Fresh)
		}
		allocs, err := s.FetchAllocs(ctx, identity(idN1), []string{"a3", "b1", "missing"})
		if err != nil || len(allocs) != 1 || allocs[0].ID != "a3" || allocs[0].Job == nil || allocs[0].Job.ID != "web" {
			t.Fatalf("fetched %+v, %v", allocs, err)
		}
		stop := &model.Plan{Namespace: "default", JobID: "web", SnapshotIndex: s.store.View().Index(), Change: []model.AllocChange{{AllocID: "a3", Kind: model.AllocStop}}}
		s.log.write(t, &fsm.ApplyPlan{Plan: stop, VerifiedIndex: stop.SnapshotIndex})
		if end := <-pushed; !slices.Equal(ids(end), []string{"a3"}) || len(end.Fresh) > 0 {
			t.Errorf("after its stop came %+v", end)
		}
	})
}

func TestUpdatesThatComeTogetherAreOneLogEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		const nodes = 20
		for i := range nodes {
			id := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
			s.register(t, id)
			s.place(t, id, "a"+id)
		}
		before := s.log.writes.Load()
		s.log.hold = make(chan struct{})
		var done sync.WaitGroup
		for i := range nodes {
			done.Go(func() {
				id := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
				if _, err := s.UpdateAllocs(ctx, identity(id), []*model.AllocReport{{ID: "a" + id, ClientStatus: model.AllocClientStatusRunning}}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // the first is being committed, the rest waits
		close(s.log.hold)
		done.Wait()
		if writes := s.log.writes.Load() - before; writes > 2 {
			t.Fatalf("%d nodes caused %d log entries, want at most 2", nodes, writes)
		}
		for i := range nodes {
			if a := s.store.View().AllocByID(fmt.Sprintf("a00000000-0000-0000-0000-%012d", i)); a.ClientStatus != model.AllocClientStatusRunning {
				t.Fatalf("alloc %s is %s", a.ID, a.ClientStatus)
			}
		}
	})
}

func TestAFailedAllocAsksForOneEvalOfItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1", "a2")
		failed := func() {
			t.Helper()
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{
				{ID: "a1", ClientStatus: model.AllocClientStatusFailed}, {ID: "a2", ClientStatus: model.AllocClientStatusFailed},
			}); err != nil {
				t.Fatal(err)
			}
		}
		failed()
		failed() // a repeated update asks for nothing
		count := 0
		for e := range s.store.View().Evals() {
			if e.TriggeredBy == model.EvalTriggerRetryFailedAlloc {
				count++
			}
		}
		if count != 1 {
			t.Fatalf("two failed allocs of one job made %d evals", count)
		}
	})
}

// reports has the node say what its alloc's task does.
func (s *servers) reports(t *testing.T, ctx context.Context, alloc, status, task string) {
	t.Helper()
	u := &model.Allocation{ID: alloc, ClientStatus: status, TaskStates: map[string]*model.TaskState{"t": {State: task}}}
	if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{u.ReportSince(nil)}); err != nil {
		t.Fatal(err)
	}
}

func TestOfTwoAllocsForOnePlaceTheSchedulerHearsWhenOneBeginsToRun(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "first")
		view := s.store.View()
		s.log.write(t, &fsm.ApplyPlan{VerifiedIndex: view.Index(), Plan: &model.Plan{
			Namespace: "default", JobID: "web", SnapshotIndex: view.Index(), Place: []*model.Allocation{{
				ID: "second", PreviousAllocation: "first", TaskGroup: "g", NodeID: idN1,
				JobVersion: view.JobByID("default", "web").Version,
			}},
		}})
		asked := func() int {
			n := 0
			for e := range s.store.View().Evals() {
				if e.TriggeredBy == model.EvalTriggerReconnect {
					n++
				}
			}
			return n
		}
		for i, step := range []struct {
			alloc, status, task string
			want                int
		}{
			{"second", "running", "pending", 0}, // its task is to be restarted
			{"second", "running", "running", 1},
			{"second", "running", "running", 1}, // no news
			{"first", "running", "pending", 1},
			{"first", "running", "running", 2},
		} {
			s.reports(t, ctx, step.alloc, step.status, step.task)
			if got := asked(); got != step.want {
				t.Fatalf("step %d: the scheduler was asked %d times, want %d", i, got, step.want)
			}
		}
		s.log.write(t, &fsm.ApplyPlan{Plan: &model.Plan{
			Namespace: "default", JobID: "web", SnapshotIndex: s.store.View().Index(),
			Change: []model.AllocChange{{Kind: model.AllocStop, AllocID: "second"}},
		}})
		s.reports(t, ctx, "first", "running", "pending")
		s.reports(t, ctx, "first", "running", "running")
		if got := asked(); got != 2 {
			t.Fatalf("it was asked for an alloc that has its place for itself: %d", got)
		}
	})
}

func TestANodeThatFallsSilentIsDownUntilItBeatsAndMayNotUpdateMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		writes := s.log.writes.Load()
		for range 10 {
			time.Sleep(4 * time.Second) // the bubble's clock
			if _, err := s.Beat(ctx, identity(idN1)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.log.writes.Load(); got != writes {
			t.Fatalf("a healthy node caused %d log entries", got-writes)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.store.View().NodeByID(idN1); n.Status != model.NodeStatusDown {
			t.Fatalf("10 s after the last beat the node is %s", n.Status)
		}
		update := []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusRunning}}
		if _, err := s.UpdateAllocs(ctx, identity(idN1), update); !errdefs.IsFailedPrecondition(err) {
			t.Fatalf("an update of a node that is down gave %v", err)
		}
		if _, err := s.Beat(ctx, identity(idN1)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.UpdateAllocs(ctx, identity(idN1), update); err != nil {
			t.Fatalf("after a beat: %v", err)
		}
		if n := s.store.View().NodeByID(idN1); n.Status != model.NodeStatusReady {
			t.Fatalf("after a beat the node is %s", n.Status)
		}
	})
}

func TestANodeMayBeHeardOfLaterByTheGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		status := func() string {
			synctest.Wait()
			return s.store.View().NodeByID(idN1).Status
		}
		time.Sleep(25 * time.Second) // the lease is 8 s
		if got := status(); got != model.NodeStatusReady {
			t.Fatalf("within the grace the node is %s", got)
		}
		if lease, err := s.Beat(ctx, identity(idN1)); err != nil || !nearly(lease.TTL, 8*time.Second) {
			t.Fatalf("the node hears of a lease of %s, %v", lease.TTL, err)
		}
		time.Sleep(30 * time.Second)
		if got := status(); got != model.NodeStatusDown {
			t.Fatalf("after lease and grace the node is %s", got)
		}
	}, func(c *dispatch.Config) { c.Grace = 20 * time.Second })
}

func TestANodeWhoseAllocsMayReconnectIsDisconnectedNotDown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		patient := job()
		patient.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour}
		s.log.write(t, &fsm.UpsertJob{Job: patient})
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		s.log.write(t, &fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusRunning}}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.store.View().NodeByID(idN1); n.Status != model.NodeStatusDisconnected {
			t.Fatalf("the node is %s", n.Status)
		}
	})
}

func TestAWrongSecretIsRefusedEverywhere(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		thief := rpc.Identity{NodeID: idN1, SecretID: "guess"}
		_, beat := s.Beat(ctx, thief)
		_, update := s.UpdateAllocs(ctx, thief, nil)
		_, fetch := s.FetchAllocs(ctx, thief, nil)
		attach := s.Attach(ctx, thief, nil, nil)
		_, register := s.Register(ctx, &model.Node{ID: idN1, SecretID: "guess"})
		for what, err := range map[string]error{"beat": beat, "update": update, "fetch": fetch, "attach": attach, "register": register} {
			if !errdefs.IsPermissionDenied(err) {
				t.Errorf("%s gave %v", what, err)
			}
		}
		if _, err := s.Beat(ctx, rpc.Identity{NodeID: idFar}); !errdefs.IsNotFound(err) {
			t.Errorf("an unknown node's beat gave %v", err)
		}
	})
}

// echo answers a call with its method.
type echo struct{}

func (echo) Call(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	return send([]byte(`"` + call.Method + `"`))
}

func TestANodeOfAnotherRegionIsRefusedBeforeAnythingIsPlacedOnIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		_, err := s.Register(ctx, &model.Node{ID: idFar, SecretID: "s", Region: "eu"})
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `region "eu"`) || s.store.View().NodeByID(idFar) != nil {
			t.Errorf("a node of another region: %v", err)
		}
		if _, err := s.Register(ctx, &model.Node{ID: idNear, SecretID: "s", Region: "global"}); err != nil {
			t.Error(err)
		}
		if n := s.store.View().NodeByID(idNear); n == nil || n.Region != "" {
			t.Errorf("stored is %+v", n)
		}
	})
}

func TestCallsReachTheNewestSessionOfANode(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		if _, err := s.Node(idN1); !errdefs.IsUnavailable(err) {
			t.Fatalf("a node without a session gave %v", err)
		}
		if _, err := s.Node(idN9); !errdefs.IsNotFound(err) {
			t.Fatalf("an unknown node gave %v", err)
		}
		_, oldEnded := s.attach(ctx, idN1, nil)
		synctest.Wait()
		session, leave := context.WithCancel(ctx)
		_, ended := s.attach(session, idN1, echo{})
		if err := <-oldEnded; !errdefs.IsAborted(err) {
			t.Fatalf("the older session ended with %v", err)
		}
		n, err := s.Node(idN1)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := rpc.Ask[string](ctx, n, "fs.ls", nil); err != nil || answer != "fs.ls" {
			t.Fatalf("got %q, %v", answer, err)
		}
		leave()
		<-ended
		if _, err := s.Node(idN1); !errdefs.IsUnavailable(err) {
			t.Fatalf("after its session the node gave %v", err)
		}
	})
}

// TestACallWaitsForTheSessionOfANodeThatComes: a node that has just registered opens its session
// a moment later, and one that has fallen silent is not waited for.
func TestACallWaitsForTheSessionOfANodeThatComes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		session, leave := context.WithCancel(ctx)
		came := make(chan (<-chan error), 1)
		time.AfterFunc(time.Second, func() {
			_, ended := s.attach(session, idN1, echo{})
			came <- ended
		})
		begun := time.Now()
		if _, err := s.Node(idN1); err != nil || time.Since(begun) > 1100*time.Millisecond {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		leave()
		<-<-came
		time.Sleep(time.Minute) // its lease ends
		begun = time.Now()
		if _, err := s.Node(idN1); !errdefs.IsUnavailable(err) || time.Since(begun) != 0 {
			t.Errorf("a node that is down, after %s: %v", time.Since(begun), err)
		}
	})
}

func TestANodeReadsVariablesForJobsThatItRunsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		s.place(t, idN1, "a1")
		s.log.write(t, &fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "k", State: model.RootKeyActive}})
		put := func(path, value string) {
			s.log.write(t, &fsm.PutVariable{Variable: &model.Variable{Namespace: "default", Path: path, Data: []byte(value)}})
		}
		put("app", "one")
		ask := rpc.VariableQuery{JobNamespace: "default", JobID: "web", Namespace: "default", Path: "app"}
		first, err := s.Variables(ctx, identity(idN1), ask)
		if err != nil || len(first.Variables) != 1 || first.Variables[0].Items["data"] != "one" {
			t.Fatalf("read %+v, %v", first, err)
		}
		if _, err := s.Variables(ctx, identity(idN2), ask); !errdefs.IsPermissionDenied(err) {
			t.Fatalf("a node that does not run the job: %v", err)
		}
		if _, err := s.Variables(ctx, rpc.Identity{NodeID: idN1, SecretID: "guess"}, ask); !errdefs.IsPermissionDenied(err) {
			t.Fatalf("a wrong secret: %v", err)
		}

		ask.Since, ask.Wait = first.Index, time.Minute
		answers := make(chan rpc.VariableAnswer, 1)
		go func() {
			answer, err := s.Variables(ctx, identity(idN1), ask)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		synctest.Wait()
		put("other", "x")
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatal("another variable's change was answered")
		}
		put("app", "two")
		next := <-answers
		if next.Index <= first.Index || next.Variables[0].Items["data"] != "two" {
			t.Fatalf("after the change came %+v", next)
		}
		ask.Since = next.Index
		if same, err := s.Variables(ctx, identity(idN1), ask); err != nil || same.Index != next.Index {
			t.Fatalf("after the wait came %+v, %v", same, err)
		}
		list, err := s.Variables(ctx, identity(idN1), rpc.VariableQuery{JobNamespace: "default", JobID: "web", Namespace: "default", Path: "a", List: true})
		if err != nil || len(list.Variables) != 1 || list.Variables[0].Path != "app" || list.Variables[0].Items != nil {
			t.Fatalf("listed %+v, %v", list, err)
		}
	})
}

func TestANodeReadsServicesForJobsThatItRunsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		j := *s.store.View().JobByID("default", "web")
		tg := *j.TaskGroups[0]
		tg.Services = []*model.Service{{Name: "db", Provider: "nomad", Tags: []string{"t"}}, {Name: "x${NOMAD_ALLOC_INDEX}", Provider: "nomad"}}
		j.TaskGroups = []*model.TaskGroup{&tg}
		s.log.write(t, &fsm.UpsertJob{Job: &j})
		s.place(t, idN1, "a1")
		ask := rpc.ServiceQuery{Namespace: "default", JobID: "web", Name: "db"}
		first, err := s.Services(ctx, identity(idN1), ask)
		if err != nil || len(first.Instances) > 0 || first.Index == 0 {
			t.Fatalf("before the alloc runs: %+v, %v", first, err)
		}
		if _, err := s.Services(ctx, identity(idN2), ask); !errdefs.IsPermissionDenied(err) {
			t.Fatalf("a node that does not run the job: %v", err)
		}
		if _, err := s.Services(ctx, identity(idN2), rpc.ServiceQuery{Namespace: "default", Name: "db", Names: true}); err != nil {
			t.Errorf("its DNS server, which may ask for every service: %v", err)
		}
		if _, err := s.Services(ctx, identity(idN2), rpc.ServiceQuery{Namespace: "default", Names: true}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a DNS server that asks for all services: %v", err)
		}

		ask.Since, ask.Wait = first.Index, time.Minute
		answers := make(chan rpc.ServiceAnswer, 1)
		go func() {
			answer, err := s.Services(ctx, identity(idN1), ask)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		synctest.Wait()
		s.log.write(t, &fsm.PutVariable{Variable: &model.Variable{Namespace: "default", Path: "x"}})
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatal("a change of something else was answered")
		}
		s.log.write(t, &fsm.UpdateAllocsFromClient{At: 1, Reports: []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusRunning}}})
		next := <-answers
		if next.Index <= first.Index || len(next.Instances) != 1 || next.Instances[0].AllocID != "a1" {
			t.Fatalf("after the alloc runs came %+v", next)
		}
		list, err := s.Services(ctx, identity(idN1), rpc.ServiceQuery{Namespace: "default", JobID: "web"})
		want := []rpc.ServiceTags{{Name: "db", Tags: []string{"t"}}, {Name: "x0"}}
		if err != nil || !reflect.DeepEqual(list.Services, want) {
			t.Fatalf("listed %+v, %v", list, err)
		}
	})
}

func TestWhatANodeReportsOfItselfIsKeptWithinBounds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		n := node(idN1)
		for i := range 1000 {
			e := &model.NodeEvent{Subsystem: "Plugin", Message: strings.Repeat("x", 1<<20), Timestamp: time.Unix(int64(i), 0), CreateIndex: 99, Details: map[string]string{}}
			for k := range 100 {
				e.Details[fmt.Sprintf("%03d", k)] = strings.Repeat("y", 1<<10+1)
			}
			n.Events = append(n.Events, e, nil)
		}
		if _, err := s.Register(ctx, n); err != nil {
			t.Fatal(err)
		}
		got := s.store.View().NodeByID(idN1).Events
		if len(got) == 0 || len(got) > model.MaxNodeEvents {
			t.Fatalf("%d events", len(got))
		}
		last := got[len(got)-1]
		if last.Timestamp.Unix() != 999 || len(last.Message) > 1100 || len(last.Details) > 16 || len(last.Details["000"]) > 1100 || last.CreateIndex == 99 {
			t.Fatalf("the newest is of %s with %d bytes, %d details, index %d", last.Timestamp, len(last.Message), len(last.Details), last.CreateIndex)
		}
	})
}

// The ids of nodes.
const (
	idN1   = "00000000-0000-0000-0000-000000000001"
	idN2   = "00000000-0000-0000-0000-000000000002"
	idN9   = "00000000-0000-0000-0000-000000000009"
	idFar  = "00000000-0000-0000-0000-0000000000fa"
	idNear = "00000000-0000-0000-0000-0000000000ea"
)
