// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// subscriber follows the events of node pools over several servers, one after the other.
type subscriber struct {
	mu     sync.Mutex
	pools  map[string]uint64 // by name: the index of its event
	gaps   []api.EventGap
	last   uint64 // the newest index of which it has been told
	faults []string
}

// follow reads the stream of a server from behind the last index, until the stream or ctx
// ends.
func (s *subscriber) follow(ctx context.Context, at *agent) error {
	s.mu.Lock()
	from := s.last + 1
	s.mu.Unlock()
	return at.Events(ctx, []string{"NodePool"}, from, func(b *api.EventBatch) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b.Index <= s.last {
			s.faults = append(s.faults, fmt.Sprintf("index %d after %d", b.Index, s.last))
		}
		if b.Gap != nil {
			s.gaps = append(s.gaps, *b.Gap)
			if b.Gap.From != s.last+1 || b.Gap.To != b.Index {
				s.faults = append(s.faults, fmt.Sprintf("the gap %+v in a batch of index %d after %d", *b.Gap, b.Index, s.last))
			}
		}
		for _, e := range b.Events {
			if e.Index != b.Index {
				s.faults = append(s.faults, fmt.Sprintf("an event of index %d in the batch %d", e.Index, b.Index))
			}
			if was, twice := s.pools[e.Key]; twice {
				s.faults = append(s.faults, fmt.Sprintf("%s at %d and at %d", e.Key, was, b.Index))
			}
			s.pools[e.Key] = b.Index
		}
		s.last = b.Index
		return nil
	})
}

// seen returns how many pools it has been told of.
func (s *subscriber) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pools)
}

// begin follows the servers in turn until stop is called; it goes to the next one when a
// stream ends.
func (s *subscriber) begin(t *testing.T, servers ...*agent) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			if err := s.follow(ctx, servers[i%len(servers)]); err != nil && ctx.Err() == nil {
				t.Logf("a stream ended: %v", err)
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// check compares what was told with the pools that there are, up to an index.
func (s *subscriber) check(t *testing.T, pools []*model.NodePool, from, upTo uint64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		t.Error(f)
	}
	missing := func(index uint64) bool {
		for _, g := range s.gaps {
			if g.From <= index && index <= g.To {
				return true
			}
		}
		return false
	}
	for _, p := range pools {
		told, was := s.pools[p.Name]
		switch {
		case p.CreateIndex < from || p.CreateIndex > upTo || !was && missing(p.CreateIndex):
		case !was:
			t.Errorf("%s of index %d was missed; gaps %v", p.Name, p.CreateIndex, s.gaps)
		case told != p.CreateIndex:
			t.Errorf("%s of index %d was told at %d", p.Name, p.CreateIndex, told)
		}
	}
}

// writer writes node pools, each once, through the servers in turn, and keeps those that
// were acknowledged.
type writer struct {
	mu    sync.Mutex
	acked []string
}

func (w *writer) begin(t *testing.T, servers ...*agent) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("p%04d", i)
			ask, end := context.WithTimeout(ctx, 20*time.Second)
			err := servers[i%len(servers)].ApplyNodePool(ask, &model.NodePool{Name: name})
			end()
			if err == nil {
				w.mu.Lock()
				w.acked = append(w.acked, name)
				w.mu.Unlock()
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestASubscriberThatResumesAtAnotherServerMissesNothingAndIsToldNothingTwice: the leader
// is killed while a client follows it; the client resumes behind its last index at another
// server, and later at the one that was killed.
func TestASubscriberThatResumesAtAnotherServerMissesNothingAndIsToldNothingTwice(t *testing.T) {
	s := newServersOf(t, 3, func(*agent) {}, "", "", "")
	leader := s.leader(s.all...)
	rest := s.without(leader)
	w, sub := &writer{}, &subscriber{pools: map[string]uint64{}}
	endWrites := w.begin(t, s.all...)
	stop := sub.begin(t, leader, rest[0], rest[1])
	more := func(what string) {
		t.Helper()
		want := sub.seen() + 30
		rest[0].Eventually(harness.Patience, what, func() bool { return sub.seen() >= want })
	}
	more("the subscriber is told of pools by the leader")
	leader.Kill()
	more("it is told of more by another server")
	stop()
	if len(sub.gaps) > 0 {
		t.Errorf("the servers that were not killed lack %v", sub.gaps)
	}

	killed := leader
	killed.Launch()
	s.leader(s.all...)
	stop = sub.begin(t, killed)
	more("it is told of more by the server that was killed")
	endWrites()
	pools, meta := s.pools(rest[0])
	rest[0].Eventually(harness.Patience, "the subscriber is at the end", func() bool {
		sub.mu.Lock()
		defer sub.mu.Unlock()
		return sub.last >= meta.Index
	})
	stop()
	sub.check(t, pools, 1, meta.Index)
	there := map[string]bool{}
	for _, p := range pools {
		there[p.Name] = true
	}
	for _, name := range w.acked {
		if !there[name] {
			t.Errorf("the acknowledged pool %s is gone", name)
		}
	}
	t.Logf("%d pools, %d acknowledged, %d told, gaps %v", len(pools), len(w.acked), len(sub.pools), sub.gaps)

	// Each server tells the same from the beginning, or says what it lacks.
	for _, a := range s.all {
		again := &subscriber{pools: map[string]uint64{}}
		stop := again.begin(t, a)
		a.Eventually(harness.Patience, "a server tells all that it has", func() bool {
			again.mu.Lock()
			defer again.mu.Unlock()
			return again.last >= meta.Index
		})
		stop()
		again.check(t, pools, 1, meta.Index)
	}
}

// pools returns the node pools that were written.
func (s *servers) pools(through *agent) (out []*model.NodePool, meta client.Meta) {
	s.t.Helper()
	list, meta, err := through.NodePools(through.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range list {
		if p.Name != model.NodePoolAll && p.Name != model.NodePoolDefault {
			out = append(out, p)
		}
	}
	return out, meta
}

// TestASubscriberIsToldWhichEventsAServerNoLongerHas: a server that keeps few events says
// which ones it lacks, and goes on behind them.
func TestASubscriberIsToldWhichEventsAServerNoLongerHas(t *testing.T) {
	s := newServersOf(t, 3, func(*agent) {}, "event_buffer_size = 20", "event_buffer_size = 20", "event_buffer_size = 20")
	leader := s.leader(s.all...)
	for i := range 60 {
		if err := leader.ApplyNodePool(leader.Context(), &model.NodePool{Name: fmt.Sprintf("p%04d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	pools, meta := s.pools(leader)
	leader.Kill()
	for _, a := range s.without(leader) {
		a.Eventually(harness.Patience, "a follower has what was acknowledged", func() bool {
			list, _, err := a.NodePools(a.Context(), &client.Query{Stale: true})
			return err == nil && len(list) == len(pools)+2
		})
		sub := &subscriber{pools: map[string]uint64{}, last: pools[9].CreateIndex}
		stop := sub.begin(t, a)
		a.Eventually(harness.Patience, "the newest events are there", func() bool {
			sub.mu.Lock()
			defer sub.mu.Unlock()
			return sub.last >= meta.Index
		})
		stop()
		sub.check(t, pools, pools[9].CreateIndex+1, meta.Index)
		if len(sub.gaps) != 1 || sub.gaps[0].From != pools[9].CreateIndex+1 || len(sub.pools) == 0 || len(sub.pools) > 20 {
			t.Errorf("gaps %v, %d pools", sub.gaps, len(sub.pools))
		}
	}
}

// TestABlockingQueryThatWaitsWhileTheLeaderDiesAnswersTheNextWrite: on a follower it goes
// on waiting; at the killed leader it breaks off, and is repeated elsewhere with its index.
func TestABlockingQueryThatWaitsWhileTheLeaderDiesAnswersTheNextWrite(t *testing.T) {
	s := newServers(t)
	leader := s.leader(s.all...)
	rest := s.without(leader)
	s.write(leader, "before")
	_, meta, err := rest[0].Namespaces(rest[0].Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting := &client.Query{WaitIndex: meta.Index, WaitTime: 4 * time.Minute}
	stale := *waiting
	stale.Stale = true
	type result struct {
		who   string
		names []string
		index uint64
		err   error
	}
	results := make(chan result, 8)
	ask := func(who string, at *agent, q *client.Query) {
		list, m, err := at.Namespaces(t.Context(), q)
		r := result{who: who, index: m.Index, err: err}
		for _, n := range list {
			r.names = append(r.names, n.Name)
		}
		results <- r
	}
	for i, a := range rest {
		go ask(fmt.Sprint("a query of follower ", i), a, waiting)
		go ask(fmt.Sprint("a stale query of follower ", i), a, &stale)
	}
	broken := make(chan error, 1)
	go func() {
		_, _, err := leader.Namespaces(t.Context(), waiting)
		broken <- err
	}()
	for _, a := range s.all {
		want := 2
		if a == leader {
			want = 1
		}
		a.Eventually(harness.Patience, "the queries wait at the server", func() bool {
			_, stacks := a.HTTPGet("/debug/pprof/goroutine?debug=2")
			return strings.Count(stacks, "api.(*Server).lookOnce(") >= want
		})
	}
	select {
	case r := <-results:
		t.Fatalf("%s did not wait: %+v", r.who, r)
	default:
	}
	leader.Kill()
	if err := <-broken; err == nil {
		t.Error("the query at the killed leader was answered")
	}
	go ask("the query of the killed leader, repeated", rest[1], waiting)
	s.leader(rest...)
	select {
	case r := <-results:
		t.Fatalf("%s answered without a change: %+v", r.who, r)
	default:
	}
	s.write(rest[0], "after")
	for range 5 {
		var r result
		select {
		case r = <-results:
		case <-time.After(harness.Patience):
			t.Fatal("a query still waits after the write")
		}
		if r.err != nil || r.index <= meta.Index || !strings.Contains(strings.Join(r.names, " "), "after") {
			t.Errorf("%s: index %d after %d, %v, %v", r.who, r.index, meta.Index, r.names, r.err)
		}
	}
}

// TestTheIndexOfAClientThatGoesFromServerToServerNeverGoesBack: it asks each server in turn
// for what is newer, also stale, while the leader is killed.
func TestTheIndexOfAClientThatGoesFromServerToServerNeverGoesBack(t *testing.T) {
	s := newServers(t)
	leader := s.leader(s.all...)
	w := &writer{}
	endWrites := w.begin(t, s.all...)
	index, answers := uint64(1), 0
	look := func(a *agent, stale string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/v1/node/pools?index=%d&wait=1s%s", a.Addr, index, stale), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return // no leader at the moment
		}
		now, err := strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
		if err != nil || now < index {
			t.Errorf("%s%s: index %d after %d, %v", a.Addr, stale, now, index, err)
		}
		index = max(index, now)
		answers++
	}
	rounds := func(n int) {
		t.Helper()
		for enough := answers + n; answers < enough && t.Context().Err() == nil; {
			for i, a := range s.all {
				look(a, []string{"&stale", "", "&consistent"}[(answers+i)%3])
			}
		}
	}
	rounds(30)
	leader.Kill()
	rounds(30)
	leader.Launch()
	s.leader(s.all...)
	rounds(30)
	endWrites()
}
