// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/sdk/errdefs"
)

// lanes are the rules of a test. The node pool of a job is what follows @ in its id.
type lanes struct {
	rules  map[queue.LaneID]model.LaneRules
	strict bool
	placed map[string]bool // jobs with allocs
}

func (l *lanes) Seat(e *model.Evaluation) queue.Seat {
	pool := "default"
	for i := range e.JobID {
		if e.JobID[i] == '@' {
			pool = e.JobID[i+1:]
		}
	}
	return queue.Seat{Lane: queue.LaneID{Namespace: e.Namespace, NodePool: pool}, Order: e.CreateIndex, New: !l.placed[e.JobID]}
}

func (l *lanes) Rules(id queue.LaneID) model.LaneRules { return l.rules[id] }
func (l *lanes) Strict() bool                          { return l.strict }

func laned(l *lanes) *queue.Broker {
	b := queue.NewBroker(queue.Config{Lanes: l})
	b.SetEnabled(true)
	return b
}

func of(ns, id, job string, priority int, index uint64) *model.Evaluation {
	e := eval(id, job, priority, index)
	e.Namespace = ns
	return e
}

// serve takes and acknowledges n evaluations and returns them.
func serve(t *testing.T, b *queue.Broker, n int) []*model.Evaluation {
	t.Helper()
	var out []*model.Evaluation
	for range n {
		e, token, err := b.Dequeue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Ack(e.ID, token); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func served(evals []*model.Evaluation, by func(*model.Evaluation) string) map[string]int {
	out := map[string]int{}
	for _, e := range evals {
		out[by(e)]++
	}
	return out
}

func TestAHundredNamespacesGetSharesWithinFivePercentOfTheirWeights(t *testing.T) {
	const turns = 20 // evaluations per unit of weight
	l := &lanes{rules: map[queue.LaneID]model.LaneRules{}}
	total := 0
	for i := range 100 {
		weight := 1 + i%10
		total += weight
		l.rules[queue.LaneID{Namespace: fmt.Sprint("ns-", i), NodePool: "default"}] = model.LaneRules{Weight: weight}
	}
	b := laned(l)
	for i := range 100 {
		for k := range 12 * turns { // more than it can get
			id := fmt.Sprintf("%d-%d", i, k)
			b.Enqueue(of(fmt.Sprint("ns-", i), id, id, 1+rand.IntN(100), uint64(k)))
		}
	}
	got := served(serve(t, b, total*turns), func(e *model.Evaluation) string { return e.Namespace })
	for i := range 100 {
		want := float64((1 + i%10) * turns)
		if n := float64(got[fmt.Sprint("ns-", i)]); n < 0.95*want || n > 1.05*want {
			t.Errorf("namespace %d got %v evaluations, want %v", i, n, want)
		}
	}
}

func TestOneJobOfAQuietNamespaceIsNextWhateverAnotherHasQueued(t *testing.T) {
	b := laned(&lanes{})
	for i := range 10_000 {
		b.Enqueue(of("loud", fmt.Sprint("e", i), fmt.Sprint("j", i), 100, uint64(i)))
	}
	serve(t, b, 500)
	for i := range 20 {
		id := fmt.Sprint("single-", i)
		b.Enqueue(of("quiet", id, id, 1, uint64(20_000+i)))
		if got := serve(t, b, 2); got[0].ID != id && got[1].ID != id {
			t.Fatalf("%s is not among the next two: %s, %s", id, got[0].ID, got[1].ID)
		}
	}
}

func TestANamespaceThatAddsOneByOneGetsNoMoreThanItsShare(t *testing.T) {
	b := laned(&lanes{rules: map[queue.LaneID]model.LaneRules{{Namespace: "loud", NodePool: "default"}: {Weight: 9}}})
	for i := range 1000 {
		b.Enqueue(of("loud", fmt.Sprint("e", i), fmt.Sprint("j", i), 50, uint64(i)))
	}
	b.Enqueue(of("eager", "x", "x", 50, 1))
	got := 0
	for i := range 500 {
		if e := serve(t, b, 1)[0]; e.Namespace == "eager" {
			got++
			id := fmt.Sprint("x", i)
			b.Enqueue(of("eager", id, id, 50, uint64(i)))
		}
	}
	if got < 48 || got > 52 {
		t.Errorf("it got %d turns of 500 with a weight of 1 beside 9", got)
	}
}

func TestPoolsShareWhatTheirNamespaceGets(t *testing.T) {
	l := &lanes{rules: map[queue.LaneID]model.LaneRules{
		{Namespace: "a", NodePool: "gpu"}: {PoolWeight: 3}, {Namespace: "a", NodePool: "cpu"}: {PoolWeight: 1},
	}}
	b := laned(l)
	for i := range 400 {
		for _, lane := range [][2]string{{"a", "gpu"}, {"a", "cpu"}, {"b", "gpu"}} {
			id := fmt.Sprintf("%s-%d@%s", lane[0], i, lane[1])
			b.Enqueue(of(lane[0], id, id, 50, uint64(i)))
		}
	}
	got := served(serve(t, b, 400), func(e *model.Evaluation) string { return e.Namespace + "@" + e.JobID[len(e.JobID)-3:] })
	if got["b@gpu"] != 200 || got["a@gpu"] != 150 || got["a@cpu"] != 50 {
		t.Errorf("%v; a namespace with two pools gets no more than one with one", got)
	}
	for _, s := range b.Lanes() {
		if s.Namespace == "a" && s.NodePool == "gpu" && (s.Served != 150 || s.Ready != 250 || s.Waiting != 0) {
			t.Errorf("%+v", s)
		}
	}
}

func TestWithTheOrderOfPrioritiesTheHighestComesFirstInTheCluster(t *testing.T) {
	l := &lanes{strict: true}
	b := laned(l)
	b.Enqueue(of("a", "a1", "a1", 10, 1), of("a", "a2", "a2", 70, 2), of("b", "b1", "b1", 70, 3), of("c", "c1", "c1", 90, 4), of("b", "b2", "b2", 70, 5))
	var got []string
	for _, e := range serve(t, b, 5) {
		got = append(got, e.ID)
	}
	if fmt.Sprint(got) != "[c1 a2 b1 b2 a1]" {
		t.Errorf("%v", got)
	}
	l.strict = false
	b.Reconfigure()
	b.Enqueue(of("a", "a1", "a1", 10, 1), of("b", "b1", "b1", 70, 3), of("b", "b2", "b2", 80, 3), of("b", "b3", "b3", 90, 3))
	if got := served(serve(t, b, 2), func(e *model.Evaluation) string { return e.Namespace }); got["a"] != 1 {
		t.Errorf("fair again, but %v", got)
	}
}

func ordered() *lanes {
	return &lanes{rules: map[queue.LaneID]model.LaneRules{{Namespace: "default", NodePool: "default"}: {Ordered: true}}, placed: map[string]bool{}}
}

func TestNewJobsOfAnOrderedLaneWaitUntilThoseBeforeThemArePlaced(t *testing.T) {
	bubble(t, func(t *testing.T, _ *queue.Broker, ctx context.Context) {
		l := ordered()
		l.placed["runs"] = true
		b := laned(l)
		b.Enqueue(eval("third", "third", 50, 3), eval("first", "first", 50, 1), eval("second", "second", 50, 2))
		token := get(t, b, ctx, "first")
		nothing(t, b, ctx) // one at a time
		b.Enqueue(eval("runs", "runs", 1, 9))
		if err := b.Ack("runs", get(t, b, ctx, "runs")); err != nil { // what runs already is never held up
			t.Fatal(err)
		}
		waits := eval("waits", "first", 50, 1)
		b.Hold(waits) // the first job finds no room
		if err := b.Ack("first", token); err != nil {
			t.Fatal(err)
		}
		nothing(t, b, ctx)
		b.Enqueue(eval("urgent", "urgent", 80, 8)) // of a higher priority: it is before the first one
		if err := b.Ack("urgent", get(t, b, ctx, "urgent")); err != nil {
			t.Fatal(err)
		}
		b.Enqueue(eval("again", "first", 50, 1)) // its own next evaluation does not wait for itself
		if err := b.Ack("again", get(t, b, ctx, "again")); err != nil {
			t.Fatal(err)
		}
		nothing(t, b, ctx)
		b.Unhold(waits.ID)
		for _, id := range []string{"second", "third"} {
			if err := b.Ack(id, get(t, b, ctx, id)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAnOrderedLaneGoesOnWhenItsOrderIsSwitchedOffOrItsWorkerFails(t *testing.T) {
	bubble(t, func(t *testing.T, _ *queue.Broker, ctx context.Context) {
		l := ordered()
		b := laned(l)
		go b.Run(ctx)
		b.Hold(eval("waits", "zero", 50, 0))
		b.Enqueue(eval("first", "first", 50, 1), eval("second", "second", 50, 2))
		nothing(t, b, ctx)
		l.rules = nil
		b.Reconfigure()
		get(t, b, ctx, "first")
		get(t, b, ctx, "second")
		l.rules = ordered().rules
		b.Reconfigure()
		b.Unhold("waits")
		time.Sleep(2 * time.Minute)      // both workers are gone
		token := get(t, b, ctx, "first") // again
		if err := b.Nack("first", token); err != nil {
			t.Fatal(err)
		}
		get(t, b, ctx, "second") // the first one waits for its next try
	})
}

func TestALaneThatIsFullRefusesBeforeAnythingIsWritten(t *testing.T) {
	b := laned(&lanes{rules: map[queue.LaneID]model.LaneRules{{Namespace: "default", NodePool: "default"}: {MaxDepth: 3}}})
	id := queue.LaneID{Namespace: "default", NodePool: "default"}
	b.Enqueue(eval("a", "a", 50, 1))
	var done []func()
	for range 2 { // two writes are under way
		release, err := b.Admit(id)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, release)
	}
	_, err := b.Admit(id)
	if !errdefs.IsResourceExhausted(err) || errdefs.RetryAfter(err) < time.Second {
		t.Fatalf("%v, again after %v", err, errdefs.RetryAfter(err))
	}
	done[0]()
	if release, err := b.Admit(id); err != nil {
		t.Error(err)
	} else {
		release()
	}
	if release, err := b.Admit(queue.LaneID{Namespace: "other", NodePool: "default"}); err != nil {
		t.Errorf("another lane: %v", err)
	} else {
		release()
	}
}

// TestNothingIsLostOrTwiceAtOnceAndNoLaneStarves has workers that take, acknowledge, lose
// and refuse evaluations of many lanes at random, while lanes change their rules.
func TestNothingIsLostOrTwiceAtOnceAndNoLaneStarves(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T, _ *queue.Broker, ctx context.Context) { disorder(t, ctx, seed) })
	}
}

func disorder(t *testing.T, ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	l := &lanes{rules: map[queue.LaneID]model.LaneRules{}, placed: map[string]bool{}}
	b := queue.NewBroker(queue.Config{Lanes: l, NackTimeout: 24 * time.Hour})
	b.SetEnabled(true)
	go b.Run(ctx)
	type taken struct {
		e     *model.Evaluation
		token string
	}
	var held []taken
	open := map[string]*model.Evaluation{} // newest evaluation of each job that is not done
	inWork := map[string]bool{}
	next := 0
	take := func() bool {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		e, token, err := b.Dequeue(short)
		if err != nil {
			if e, token, err = b.DequeueFailed(short); err != nil {
				return false
			}
		}
		key := e.Namespace + "/" + e.JobID
		if inWork[key] {
			t.Fatalf("seed %d: two evaluations of %s at once", seed, key)
		}
		inWork[key] = true
		held = append(held, taken{e, token})
		return true
	}
	finish := func(ack bool) {
		if len(held) == 0 {
			return
		}
		i := r.IntN(len(held))
		h := held[i]
		held = append(held[:i], held[i+1:]...)
		key := h.e.Namespace + "/" + h.e.JobID
		delete(inWork, key)
		if !ack {
			if err := b.Nack(h.e.ID, h.token); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return
		}
		l.placed[h.e.JobID] = true
		if err := b.Ack(h.e.ID, h.token); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if open[key] == h.e {
			delete(open, key)
		}
	}
	for range 400 {
		switch r.IntN(8) {
		case 0, 1, 2:
			next++
			ns, job := fmt.Sprint("ns", r.IntN(4)), fmt.Sprintf("j%d@p%d", r.IntN(12), r.IntN(2))
			e := of(ns, fmt.Sprint("e", next), job, 1+r.IntN(100), uint64(next))
			open[ns+"/"+job] = e
			b.Enqueue(e)
		case 3, 4:
			if len(held) < 6 {
				take()
			}
		case 5:
			finish(true)
		case 6:
			finish(r.IntN(2) == 0)
		default:
			l.rules[queue.LaneID{Namespace: fmt.Sprint("ns", r.IntN(4)), NodePool: fmt.Sprint("p", r.IntN(2))}] = model.LaneRules{
				Weight: 1 + r.IntN(5), PoolWeight: 1 + r.IntN(5), Ordered: r.IntN(2) == 0,
			}
			l.strict = r.IntN(4) == 0
			b.Reconfigure()
		}
	}
	for range 2000 { // the newest evaluation of every job is delivered in the end
		if len(open) == 0 {
			break
		}
		if !take() {
			finish(true)
			time.Sleep(time.Second)
		}
	}
	for len(held) > 0 {
		finish(true)
	}
	if s := b.Stats(); len(open) > 0 || s != (queue.Stats{}) {
		t.Fatalf("seed %d: %d jobs are not evaluated, %+v is left", seed, len(open), s)
	}
	for _, s := range b.Lanes() {
		if s.Ready != 0 || s.Unacked != 0 || s.Waiting != 0 {
			t.Fatalf("seed %d: the counts of a lane are wrong: %+v", seed, s)
		}
	}
}

func TestLanesSayWhatTheyHaveInTheOrderOfTheirNames(t *testing.T) {
	b := laned(&lanes{rules: map[queue.LaneID]model.LaneRules{{Namespace: "b", NodePool: "default"}: {Ordered: true, Weight: 3}}})
	b.Enqueue(of("b", "1", "j1", 50, 1), of("b", "2", "j2", 50, 2), of("b", "3", "j2", 50, 3), of("a", "4", "j@gpu", 50, 4), of("a", "5", "j", 50, 5))
	b.Hold(of("b", "6", "j6", 50, 6))
	b.Hold(of("b", "6", "j6", 50, 6)) // once
	b.Hold(of("a", "7", "j7", 50, 7)) // its lane has no order
	if _, _, err := b.Dequeue(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range b.Lanes() {
		got = append(got, fmt.Sprintf("%s/%s ready %d, unacked %d, waiting %d, blocked %d, served %d, weight %d", l.Namespace, l.NodePool, l.Ready, l.Unacked, l.Waiting, l.Blocked, l.Served, l.Weight))
	}
	want := []string{
		"a/default ready 0, unacked 1, waiting 0, blocked 0, served 1, weight 1",
		"a/gpu ready 1, unacked 0, waiting 0, blocked 0, served 0, weight 1",
		"b/default ready 2, unacked 0, waiting 1, blocked 1, served 0, weight 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := b.Stats(); got != (queue.Stats{Ready: 3, Unacked: 1, Waiting: 1}) {
		t.Errorf("%+v", got)
	}
}

// A cluster may have any number of namespaces over time. What is remembered of those that have
// nothing to do is bounded.
func TestLanesThatHaveNothingAreDroppedWhenThereAreVeryMany(t *testing.T) {
	const many = 4096
	b := laned(&lanes{rules: map[queue.LaneID]model.LaneRules{{Namespace: "held", NodePool: "default"}: {Ordered: true}}})
	release, err := b.Admit(queue.LaneID{Namespace: "coming", NodePool: "default"})
	if err != nil {
		t.Fatal(err)
	}
	b.Hold(of("held", "h", "h", 50, 1))
	for i := range many - 3 {
		id := fmt.Sprint("ns-", i)
		b.Enqueue(of(id, id, id, 50, 1))
		serve(t, b, 1)
	}
	b.Enqueue(of("has", "x", "x", 50, 1))
	if got := len(b.Lanes()); got != many {
		t.Fatalf("there are %d lanes, not %d", got, many)
	}
	b.Enqueue(of("next", "y", "y", 50, 1))
	var got []string
	for _, l := range b.Lanes() {
		got = append(got, l.Namespace)
	}
	if want := []string{"coming", "has", "held", "next"}; !slices.Equal(got, want) {
		t.Errorf("left are %d lanes, not those with evaluations", len(got))
	}
	release()
}

// inLine runs f with a broker whose namespace default has an ordered lane.
func inLine(t *testing.T, l *lanes, f func(t *testing.T, b *queue.Broker, ctx context.Context)) {
	id := queue.LaneID{Namespace: "default", NodePool: "default"}
	l.rules = map[queue.LaneID]model.LaneRules{id: {Ordered: true}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := laned(l)
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		f(t, b, ctx)
		cancel()
		<-ended
	})
}

func TestJobsAfterOneThatWaitsForRoomGoOnWhenItWaitsNoMore(t *testing.T) {
	for name, end := range map[string]func(b *queue.Broker){
		"it has got room":                func(b *queue.Broker) { b.Unhold("h"); b.Unhold("h") },
		"it has ended":                   func(b *queue.Broker) { b.Forget("h") },
		"the lane has no order any more": nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := &lanes{}
			inLine(t, l, func(t *testing.T, b *queue.Broker, ctx context.Context) {
				b.Enqueue(eval("b", "k", 50, 2))
				b.Hold(eval("h", "j", 50, 1))
				nothing(t, b, ctx)
				time.AfterFunc(time.Second, func() {
					if end != nil {
						end(b)
						return
					}
					l.rules = nil
					b.Reconfigure()
				})
				get(t, b, ctx, "b")
			})
		})
	}
}

func TestAJobThatWaitedForRoomIsTriedBeforeThoseAfterIt(t *testing.T) {
	inLine(t, &lanes{}, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Hold(eval("h", "j", 50, 1))
		b.Enqueue(eval("b", "k", 50, 2))
		nothing(t, b, ctx)
		b.Enqueue(eval("h", "j", 50, 1))
		token := get(t, b, ctx, "h")
		nothing(t, b, ctx) // one at a time
		time.AfterFunc(time.Second, func() { _ = b.Ack("h", token) })
		get(t, b, ctx, "b")
	})
}

func TestAJobThatFailedInTheLineLeavesItForOneAtATime(t *testing.T) {
	inLine(t, &lanes{}, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		for range 3 {
			if err := b.Nack("a", get(t, b, ctx, "a")); err != nil {
				t.Fatal(err)
			}
		}
		token := taken(t, "a", func() (*model.Evaluation, string, error) { return b.DequeueFailed(ctx) })
		if err := b.Ack("a", token); err != nil {
			t.Fatal(err)
		}
		b.Enqueue(eval("b", "k", 50, 2), eval("c", "l", 50, 3))
		get(t, b, ctx, "b")
		nothing(t, b, ctx)
	})
}

func TestALaneWithAnOrderDeliversNewJobsAndOthersByPriority(t *testing.T) {
	for priority, first := range map[int]string{80: "new", 20: "placed"} {
		inLine(t, &lanes{placed: map[string]bool{"p": true}}, func(t *testing.T, b *queue.Broker, ctx context.Context) {
			b.Enqueue(eval("placed", "p", 50, 1), eval("new", "n", priority, 2))
			get(t, b, ctx, first)
		})
	}
}

// A namespace that had nothing to do has saved nothing up.
func TestANamespaceThatComesBackGetsItsShareAndNoMore(t *testing.T) {
	b := laned(&lanes{})
	add := func(ns string, from, n int) {
		for i := from; i < from+n; i++ {
			b.Enqueue(of(ns, fmt.Sprint(ns, i), fmt.Sprint(ns, i), 50, uint64(i)))
		}
	}
	add("quiet", 0, 1)
	add("loud", 0, 300)
	serve(t, b, 200)
	add("quiet", 1, 100)
	if got := served(serve(t, b, 40), func(e *model.Evaluation) string { return e.Namespace })["quiet"]; got < 18 || got > 22 {
		t.Errorf("of 40 evaluations %d are of the namespace that comes back", got)
	}
}

func TestWhoIsRefusedIsToldToComeBackWhenTheLaneMayHaveRoom(t *testing.T) {
	id := queue.LaneID{Namespace: "default", NodePool: "default"}
	for waited, want := range map[time.Duration]time.Duration{0: time.Second, 50 * time.Second: 5 * time.Second, time.Hour: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := laned(&lanes{rules: map[queue.LaneID]model.LaneRules{id: {MaxDepth: 1}}})
			b.Enqueue(eval("a", "j", 50, 1))
			time.Sleep(waited)
			if _, _, err := b.Dequeue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.Lanes()[0].Waited; got != waited {
				t.Errorf("the last one waited %s, not %s", got, waited)
			}
			_, err := b.Admit(id)
			if got := errdefs.RetryAfter(err); got != want {
				t.Errorf("after %s: %v, try again in %s, not %s", waited, err, got, want)
			}
		})
	}
}
