// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/peer"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit/leaks"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// election is who leads, as one server sees it.
type election struct {
	mu          sync.Mutex
	leads       bool
	id, address string
	changed     chan struct{}
}

func (e *election) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leads
}

func (e *election) Leader() (id, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.address
}

func (e *election) CaughtUp() bool { return true }

func (e *election) LeaderChanged() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

func (e *election) set(leads bool, id, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads, e.id, e.address = leads, id, address
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// machine is one server: its peers, its rpc port, and an HTTP API whose every request goes
// to the leader and is answered by act there.
type machine struct {
	*peer.Peers
	election
	id, address, url string
	index            atomic.Uint64
	served           atomic.Int64
	act              func(w http.ResponseWriter, r *http.Request) (any, error)
	rpc              *rpc.Server
}

// ServeHTTP is the door of core/api, as far as it is about the leader.
func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := m.Do(w, r, r.Method == http.MethodGet, func(r *http.Request) (any, error) {
		m.served.Add(1)
		return m.act(w, r)
	})
	switch {
	case err != nil:
		http.Error(w, string(errdefs.ClassOf(err))+": "+err.Error(), http.StatusInternalServerError)
	case v != nil:
		fmt.Fprint(w, v)
	}
}

// reach waits until the machine's state is at an index.
func (m *machine) reach(ctx context.Context, index uint64) error {
	for m.index.Load() < index {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func newMachine(t *testing.T, id string) *machine {
	t.Helper()
	m := &machine{id: id}
	m.act = func(_ http.ResponseWriter, r *http.Request) (any, error) {
		body, err := io.ReadAll(r.Body)
		return id + " got " + string(body), err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	m.Peers = peer.New(peer.Config{ID: id, Consensus: &m.election, Leader: m.election.Leader, Address: func(string) string { return "" }, Reach: m.reach, Logger: hclog.NewNullLogger()})
	m.rpc = rpc.NewServer(nil, nil, hclog.NewNullLogger())
	inner := &http.Server{Handler: m}
	var work sync.WaitGroup
	work.Go(func() {
		if err := m.rpc.Serve(l); err != nil {
			t.Error(err)
		}
	})
	carried := m.rpc.HTTP()
	work.Go(func() { _ = inner.Serve(carried) }) // it says that it is closed
	outer := httptest.NewServer(m)
	m.url = outer.URL
	t.Cleanup(func() {
		outer.Close()
		m.rpc.Close()
		_ = inner.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return m
}

// pair returns a leader and a follower that knows it.
func pair(t *testing.T) (leader, follower *machine) {
	leader, follower = newMachine(t, "one"), newMachine(t, "two")
	leader.set(true, leader.id, leader.address)
	follower.set(false, leader.id, leader.address)
	return leader, follower
}

func ask(t *testing.T, method, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", "secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, strings.TrimSpace(string(text))
}

func TestARequestToAFollowerIsAnsweredByTheLeaderAsItIs(t *testing.T) {
	leader, follower := pair(t)
	leader.act = func(w http.ResponseWriter, r *http.Request) (any, error) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("X-Nomad-Index", "17")
		w.WriteHeader(http.StatusTeapot)
		return fmt.Sprint(r.Method, " ", r.URL.EscapedPath(), "?", r.URL.RawQuery, " ", r.Header.Get("X-Nomad-Token"), " ", len(body)), err
	}
	resp, text := ask(t, "PUT", follower.url+"/v1/job/a%2Fplan?x=1&y=%20", strings.Repeat("a", 3<<20))
	if want := fmt.Sprint("PUT /v1/job/a%2Fplan?x=1&y=%20 secret ", 3<<20); resp.StatusCode != http.StatusTeapot || text != want {
		t.Errorf("%s %q, want %q", resp.Status, text, want)
	}
	if follower.served.Load() != 0 || leader.served.Load() != 1 {
		t.Errorf("the follower answered %d, the leader %d", follower.served.Load(), leader.served.Load())
	}
	done := make(chan struct{})
	go func() { defer close(done); follower.CatchUp(t.Context()) }()
	select {
	case <-done:
		t.Error("the follower has shown index 17 and does not wait for it")
	case <-time.After(50 * time.Millisecond):
	}
	follower.index.Store(17)
	<-done
}

func TestTwoServersThatTakeEachOtherForTheLeaderEndIt(t *testing.T) {
	one, two := newMachine(t, "one"), newMachine(t, "two")
	one.set(false, two.id, two.address)
	two.set(false, one.id, one.address)
	began := time.Now()
	resp, text := ask(t, "PUT", one.url, "x")
	if resp.StatusCode != 500 || text != "unavailable: No cluster leader" || time.Since(began) > 20*time.Second {
		t.Errorf("after %v: %s %q", time.Since(began), resp.Status, text)
	}
	if one.served.Load()+two.served.Load() != 0 {
		t.Error("a server that does not lead has answered")
	}
}

func TestARequestWaitsForTheElectionAndIsCarriedOutOnce(t *testing.T) {
	leader, follower := pair(t)
	leader.set(false, "", "")
	follower.set(false, "", "")
	answers := make(chan string)
	for range 20 {
		go func() {
			_, text := ask(t, "PUT", follower.url, "x")
			answers <- text
		}()
	}
	select {
	case text := <-answers:
		t.Fatalf("without a leader: %s", text)
	case <-time.After(100 * time.Millisecond):
	}
	follower.set(false, leader.id, leader.address) // it hears of the new leader before that one has applied the log
	time.AfterFunc(50*time.Millisecond, func() { leader.set(true, leader.id, leader.address) })
	for range 20 {
		if text := <-answers; text != "one got x" {
			t.Error(text)
		}
	}
	if n := leader.served.Load(); n != 20 {
		t.Errorf("20 requests were carried out %d times", n)
	}
}

func TestNobodyWaitsForAConnectionToALeaderThatWasReplaced(t *testing.T) {
	leader, follower := pair(t)
	follower.SetReaching(time.Hour)               // the test hangs if somebody waits for the connection
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	follower.set(false, "gone", mute.Addr().String())
	answer := make(chan string, 1)
	go func() {
		_, text := ask(t, "PUT", follower.url, "x")
		answer <- text
	}()
	select {
	case text := <-answer:
		t.Fatalf("from a leader that says nothing: %s", text)
	case <-time.After(100 * time.Millisecond):
	}
	follower.set(false, leader.id, leader.address)
	if text := <-answer; text != "one got x" {
		t.Error(text)
	}
}

// refusal is what consensus says if nothing was proposed.
func refusal() error {
	return errdefs.WithReason(errdefs.Unavailablef("not the leader"), propose.ReasonNotLeader)
}

// wrote makes a request one that has written something.
func wrote(ctx context.Context) error {
	_, err := propose.Commands(ctx, logOf{}, &fsm.RecountJobs{})
	return err
}

type logOf struct{}

func (logOf) Propose(context.Context, []byte) (uint64, any, error) { return 1, nil, nil }

func TestOnlyWhatWasCertainlyNotProposedIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(*http.Request) error
		times int64
	}{
		"refused":                              {func(*http.Request) error { return refusal() }, 2},
		"refused after a part was written":     {func(r *http.Request) error { return refusalAfter(r) }, 1},
		"lost the lead with an open proposal":  {func(*http.Request) error { return errdefs.Unavailablef("lost the lead") }, 1},
		"the connection broke off":             {func(*http.Request) error { panic(http.ErrAbortHandler) }, 1},
		"a read, and the connection broke off": {func(*http.Request) error { panic(http.ErrAbortHandler) }, 2},
	} {
		method := "PUT"
		if strings.HasPrefix(name, "a read") {
			method = "GET"
		}
		for _, where := range []string{"follower", "leader"} {
			if where == "leader" && strings.Contains(name, "broke off") {
				continue // there is no connection
			}
			t.Run(name+" through the "+where, func(t *testing.T) {
				leader, through := pair(t)
				if where == "leader" {
					through = leader
				}
				answer := leader.act
				leader.act = func(w http.ResponseWriter, r *http.Request) (any, error) {
					if leader.served.Load() == 1 {
						_, _ = r.Body.Read(make([]byte, 1))
						return nil, c.fails(r)
					}
					return answer(w, r)
				}
				resp, text := ask(t, method, through.url, "body")
				if n := leader.served.Load(); n != c.times {
					t.Errorf("it was carried out %d times, want %d: %s %s", n, c.times, resp.Status, text)
				}
				if again := text == "one got body"; again != (c.times == 2) {
					t.Errorf("%s %s", resp.Status, text)
				}
				if c.times == 1 && (resp.StatusCode != 500 || !strings.HasPrefix(text, "unavailable: ")) {
					t.Errorf("%s %s", resp.Status, text)
				}
			})
		}
	}
}

// refusalAfter is the error of a request whose first entry was written.
func refusalAfter(r *http.Request) error {
	if err := wrote(r.Context()); err != nil {
		return err
	}
	return refusal()
}

func TestALeaderThatHangsIsGivenUpWhenAnotherLeads(t *testing.T) {
	hangs, follower := pair(t)
	next := newMachine(t, "three")
	next.set(true, next.id, next.address)
	gone, began := make(chan struct{}, 2), make(chan struct{}, 2)
	hangs.act = func(_ http.ResponseWriter, r *http.Request) (any, error) {
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
		return nil, r.Context().Err()
	}
	answers := make(chan string, 2)
	for _, method := range []string{"GET", "PUT"} {
		go func() {
			_, text := ask(t, method, follower.url, "")
			answers <- method + ": " + text
		}()
	}
	<-began
	<-began
	follower.set(false, next.id, next.address)
	for range 2 {
		switch text := <-answers; {
		case strings.HasPrefix(text, "GET"):
			if text != "GET: three got" {
				t.Error(text)
			}
		case !strings.Contains(text, "outcome is unknown"):
			t.Error(text)
		}
		<-gone
	}
	if n := next.served.Load(); n != 1 {
		t.Errorf("the next leader answered %d requests, want the read alone", n)
	}
}

func TestAClientThatGoesEndsItsRequestAtTheLeader(t *testing.T) {
	leader, follower := pair(t)
	began, gone := make(chan struct{}), make(chan struct{})
	leader.act = func(_ http.ResponseWriter, r *http.Request) (any, error) {
		close(began)
		<-r.Context().Done()
		close(gone)
		return nil, r.Context().Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "PUT", follower.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-began; cancel() }()
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone
}

func TestALeaderThatCannotBeReachedIsNamed(t *testing.T) {
	leader, follower := pair(t)
	leader.rpc.Close()
	resp, text := ask(t, "PUT", follower.url, "x")
	if resp.StatusCode != 500 || !strings.Contains(text, leader.address) || !strings.HasPrefix(text, "unavailable: ") {
		t.Errorf("%s %s", resp.Status, text)
	}
	if leader.served.Load() != 0 {
		t.Error("the request was carried out")
	}
}
