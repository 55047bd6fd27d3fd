// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
)

// to sends a request to a server's HTTP API. A body that is not a string is sent as JSON.
func to(t *testing.T, m *testkit.Member, method, path string, body any) (*http.Response, string) {
	t.Helper()
	text, isText := body.(string)
	if !isText && body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.URL+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return &http.Response{Header: http.Header{}}, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	return resp, string(answer)
}

// must is to for a request that must succeed.
func must(t *testing.T, m *testkit.Member, method, path string, body any) (*http.Response, string) {
	t.Helper()
	resp, text := to(t, m, method, path, body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return resp, text
}

func cluster(t *testing.T) *testkit.Servers {
	t.Helper()
	c := testkit.NewServers(t, 3)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return c
}

func registered(id string, count int) map[string]any {
	return map[string]any{"Job": testkit.Job(id, count)}
}

// minted is what differs between two equal requests.
var minted = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|"(Index|\w*ModifyIndex|CreateIndex|EvalCreateIndex|SubmitTime|ModifyTime|CreateTime)":\d+`)

func TestEachKindOfRequestThroughAFollowerIsAnsweredAsByTheLeader(t *testing.T) {
	c := cluster(t)
	leader, follower := c.Leader(), c.Follower()
	must(t, leader, "PUT", "/v1/jobs", registered("a/plan", 1))
	must(t, leader, "PUT", "/v1/var/app/db", `{"Items":{"k":"v"}}`)
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/v1/jobs", nil}, {"GET", "/v1/jobs?per_page=1&colour=red", nil}, {"GET", "/v1/job/a%2Fplan", nil}, {"GET", "/v1/job/none", nil},
		{"GET", "/v1/job/a%2Fplan?consistent", nil}, {"GET", "/v1/jobs?filter=%28", nil}, {"GET", "/v1/jobs?index=x", nil},
		{"GET", "/v1/var/app/db", nil}, {"GET", "/v1/vars", nil}, {"GET", "/v1/nodes", nil}, {"GET", "/v1/evaluation/x", nil},
		{"GET", "/v1/operator/scheduler/configuration", nil}, {"GET", "/v1/quotas", nil}, {"GET", "/v1/acl/policies", nil}, {"GET", "/v1/nothing", nil},
		{"PUT", "/v1/jobs", registered("b", 2)}, {"PUT", "/v1/jobs", `{"Job":{}}`}, {"PUT", "/v1/jobs", `{`}, {"PUT", "/v1/jobs", ""},
		{"PUT", "/v1/jobs?all=1", registered("b", 2)}, {"POST", "/v1/search", `{"Prefix":"a","Context":"jobs"}`},
		{"PUT", "/v1/jobs", strings.Repeat(" ", 17<<20)}, {"PUT", "/v1/validate/job", registered("b", 2)}, {"PUT", "/v1/job/b/plan", registered("b", 3)},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"x\" {}"}`}, {"PUT", "/v1/system/gc", nil}, {"DELETE", "/v1/job/none", nil}, {"PATCH", "/v1/jobs", nil},
		{"PUT", "/v1/var/app/db?cas=1", `{"Items":{"k":"w"}}`}, {"PUT", "/v1/node/" + strings.Repeat("0", 8) + "-0000-0000-0000-000000000000/drain", `{"DrainSpec":{"Deadline":1}}`},
	} {
		first, a := to(t, leader, r.method, r.path, r.body)
		second, b := to(t, follower, r.method, r.path, r.body)
		a, b = minted.ReplaceAllString(a, "*"), minted.ReplaceAllString(b, "*")
		if first.StatusCode != second.StatusCode || a != b {
			t.Errorf("%s %s: the leader %d %.300s\nthrough a follower %d %.300s", r.method, r.path, first.StatusCode, a, second.StatusCode, b)
		}
		for name := range first.Header {
			switch name {
			case "Date", "Content-Length", "X-Nomad-Index":
				continue
			}
			if got, want := second.Header.Values(name), first.Header.Values(name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %s: header %s is %q, by the leader %q", r.method, r.path, name, got, want)
			}
		}
		for name := range second.Header {
			if first.Header.Get(name) == "" {
				t.Errorf("%s %s: header %s: %q, which the leader has not", r.method, r.path, name, second.Header.Get(name))
			}
		}
	}
}

func TestTheFirstToAskForTheKeysMayAskAFollower(t *testing.T) {
	c := cluster(t)
	leader, follower := c.Leader(), c.Follower()
	for range 2 { // also after a rotation
		if _, text := must(t, follower, "GET", "/.well-known/jwks.json?stale", nil); !strings.Contains(text, "EdDSA") {
			t.Errorf("stale: %s", text)
		}
		if _, text := must(t, follower, "GET", "/.well-known/jwks.json", nil); !strings.HasPrefix(text, `{"keys":[{"use":"sig","kty":"RSA"`) {
			t.Errorf("by the leader: %s", text)
		}
		must(t, leader, "PUT", "/v1/operator/keyring/rotate", nil)
	}
}

func TestStaleReadsAreServedHereAndSayHowOldTheyMayBe(t *testing.T) {
	c := cluster(t)
	leader, follower := c.Leader(), c.Follower()
	must(t, follower, "PUT", "/v1/jobs", registered("web", 1))
	for _, path := range []string{"/v1/job/web?stale", "/v1/jobs?stale&consistent", "/v1/job/web/allocations?stale&max_stale=1m"} {
		resp, _ := must(t, follower, "GET", path, nil)
		if resp.Header.Get("X-Nomad-KnownLeader") != "true" || resp.Header.Get("X-Nomad-LastContact") == "" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
	if resp, _ := must(t, leader, "GET", "/v1/job/web?stale", nil); resp.Header.Get("X-Nomad-LastContact") != "0" {
		t.Errorf("the leader: %v", resp.Header)
	}
	if resp, text := to(t, follower, "GET", "/v1/jobs?stale&max_stale=soon", nil); resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	for _, m := range c.All {
		if m != follower {
			m.Cut()
		}
	}
	follower.Cut()
	testkit.Eventually(t, "the follower has lost its leader", func() bool { _, known := follower.Raft().Leader(); return !known })
	testkit.Eventually(t, "the contact is a while ago", func() bool { return follower.Raft().LastContact() >= 20*time.Millisecond })
	resp, _ := must(t, follower, "GET", "/v1/jobs?stale", nil)
	if ms, err := strconv.Atoi(resp.Header.Get("X-Nomad-LastContact")); resp.Header.Get("X-Nomad-KnownLeader") != "false" || err != nil || ms < 20 {
		t.Errorf("without a leader: %v", resp.Header)
	}
	for _, r := range [][2]string{{"GET", "/v1/jobs"}, {"GET", "/v1/jobs?consistent"}, {"GET", "/v1/jobs?stale&max_stale=1ms"}, {"PUT", "/v1/jobs"}} {
		if resp, text := to(t, follower, r[0], r[1], registered("no", 1)); resp.StatusCode != 500 || text != "No cluster leader" {
			t.Errorf("%v without a quorum: %d %s", r, resp.StatusCode, text)
		}
	}
}

func TestAnIndexNeverGoesBackwardsForAClientOfOneServerAndItReadsWhatItWrote(t *testing.T) {
	c := cluster(t)
	follower := c.Follower()
	must(t, follower, "PUT", "/v1/var/counter", `{"Items":{"n":"-1"}}`)
	testkit.Eventually(t, "the follower has received the key of variables", func() bool {
		resp, _ := to(t, follower, "GET", "/v1/var/counter?stale", nil)
		return resp.StatusCode == http.StatusOK
	})
	last := 0
	for i := range 60 {
		must(t, follower, "PUT", "/v1/var/counter", fmt.Sprintf(`{"Items":{"n":"%d"}}`, i))
		for _, path := range []string{"/v1/var/counter?stale", "/v1/var/counter", "/v1/var/counter?stale"} {
			resp, text := must(t, follower, "GET", path, nil)
			index, err := strconv.Atoi(resp.Header.Get("X-Nomad-Index"))
			if err != nil || index < last || !strings.Contains(text, fmt.Sprintf(`"n":"%d"`, i)) {
				t.Fatalf("after write %d: %s has index %d after %d: %s", i, path, index, last, text)
			}
			last = index
		}
		if i == 30 {
			c.Leader().Stop()
			c.Leader()
		}
	}
}

func TestABlockingQueryWaitsOnItsServerAndIsAnsweredByTheLeader(t *testing.T) {
	c := cluster(t)
	leader, follower := c.Leader(), c.Follower()
	must(t, follower, "PUT", "/v1/var/k", `{"Items":{"n":"0"}}`)
	resp, _ := must(t, follower, "GET", "/v1/var/k", nil)
	index := resp.Header.Get("X-Nomad-Index")
	if resp, _ := must(t, follower, "GET", "/v1/var/k?wait=50ms&index="+index, nil); resp.Header.Get("X-Nomad-Index") != index {
		t.Errorf("without a change: %v", resp.Header)
	}
	answers := make(chan string, 300)
	for range cap(answers) { // more than may be forwarded at a time
		go func() {
			again, text := true, ""
			for again { // a busy machine may lose its leader, and a client asks again
				_, text = to(t, follower, "GET", "/v1/var/k?wait=1m&index="+index, nil)
				again = strings.Contains(text, "No cluster leader") || strings.Contains(text, "ask again")
			}
			answers <- text
		}()
	}
	testkit.Eventually(t, "they wait", func() bool { return follower.Endpoint().Store.Watchers() >= cap(answers) })
	must(t, leader, "PUT", "/v1/var/k", `{"Items":{"n":"1"}}`)
	for range cap(answers) {
		if text := <-answers; !strings.Contains(text, `"n":"1"`) {
			t.Fatal(text)
		}
	}
}

// A dispatch creates a job of its own each time, so one that is carried out twice is seen.
func TestEachAcknowledgedWriteIsThereAndNoneIsAppliedTwiceWhenLeadersAreKilled(t *testing.T) {
	c := cluster(t)
	parent := testkit.Job("parent", 1)
	parent["Type"], parent["ParameterizedJob"] = "batch", map[string]any{}
	delete(parent["TaskGroups"].([]any)[0].(map[string]any), "Update")
	must(t, c.Leader(), "PUT", "/v1/jobs", map[string]any{"Job": parent})
	var mu sync.Mutex
	acknowledged, unknown := map[string]bool{}, 0
	var counter atomic.Int64 // acknowledged increments
	for round := range 2 {
		leader := c.Leader()
		var through []*testkit.Member
		for _, m := range c.All {
			if m != leader {
				through = append(through, m)
			}
		}
		stop := make(chan struct{})
		var work sync.WaitGroup
		var begun atomic.Int64
		for i := range 8 {
			work.Go(func() {
				m := through[i%len(through)]
				for {
					select {
					case <-stop:
						return
					default:
					}
					resp, text := to(t, m, "PUT", "/v1/job/parent/dispatch", `{}`)
					var child struct{ DispatchedJobID string }
					mu.Lock()
					if resp.StatusCode == 200 && json.Unmarshal([]byte(text), &child) == nil {
						if acknowledged[child.DispatchedJobID] {
							t.Errorf("%s was acknowledged twice", child.DispatchedJobID)
						}
						acknowledged[child.DispatchedJobID] = true
					} else {
						unknown++
						t.Logf("round %d: %d %s", round, resp.StatusCode, text)
					}
					mu.Unlock()
					begun.Add(1)
				}
			})
		}
		work.Go(func() { // compare and set: an increment that is applied twice fails the next
			m, index := through[0], 0
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				resp, text := to(t, m, "PUT", fmt.Sprintf("/v1/var/n/%d?cas=%d", round, index), fmt.Sprintf(`{"Items":{"n":"%d"}}`, n))
				if resp.StatusCode != 200 { // the outcome is unknown: read
					_, text = to(t, m, "GET", fmt.Sprintf("/v1/var/n/%d", round), nil)
				} else {
					counter.Add(1)
				}
				var v struct{ ModifyIndex int }
				if err := json.Unmarshal([]byte(text), &v); err == nil && v.ModifyIndex > 0 {
					index = v.ModifyIndex
				}
			}
		})
		testkit.Eventually(t, "writes are under way", func() bool { return begun.Load() > 40 })
		leader.Kill()
		before := begun.Load()
		testkit.Eventually(t, "writes go on", func() bool { return begun.Load() > before+40 })
		close(stop)
		work.Wait()
		leader.Start()
	}
	_, text := must(t, c.Follower(), "GET", "/v1/jobs?prefix=parent/", nil)
	var children []struct{ ID string }
	if err := json.Unmarshal([]byte(text), &children); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, j := range children {
		there[j.ID] = true
	}
	for id := range acknowledged {
		if !there[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	if extra := len(children) - len(acknowledged); extra > unknown {
		t.Errorf("%d jobs, %d acknowledged and %d of unknown outcome: some were applied twice", len(children), len(acknowledged), unknown)
	}
	if counter.Load() == 0 {
		t.Error("no increment was acknowledged")
	}
	t.Logf("%d acknowledged, %d of unknown outcome, %d jobs, %d increments", len(acknowledged), unknown, len(children), counter.Load())
}

func TestANodeIsReachedThroughEveryServer(t *testing.T) {
	c := cluster(t)
	node := c.Follower().Node(func(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
		return send([]byte(`{"called":"` + call.Method + `"}`))
	})
	for i, m := range c.All {
		testkit.Eventually(t, "the node is reached", func() bool {
			resp, text := to(t, m, "GET", "/v1/client/stats?node_id="+node.ID, nil)
			return resp.StatusCode == 200 && strings.Contains(text, "host.stats")
		})
		must(t, m, "PUT", "/v1/jobs", registered(fmt.Sprint("job", i), 1))
	}
	testkit.Eventually(t, "the jobs run on the node of a follower", func() bool {
		_, text := must(t, c.Leader(), "GET", "/v1/allocations", nil)
		return strings.Count(text, `"ClientStatus":"running"`) == len(c.All)
	})
}

// eventsFrom returns the keys of the events of jobs that a server streams from an index on,
// with their indexes, until that of the last key, and the gap that it names.
func eventsFrom(t *testing.T, m *testkit.Member, index uint64, last string) (got []string, gap *api.EventGap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/v1/event/stream?topic=Job&index=%d", m.URL, index), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var b api.EventBatch
		if err := dec.Decode(&b); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		if b.Gap != nil {
			gap = b.Gap
		}
		for _, e := range b.Events {
			if job, _ := e.Payload["Job"].(map[string]any); job["Status"] != "pending" || e.Type != "JobRegistered" {
				continue // what the scheduler makes of it comes at a time of its own
			}
			got = append(got, fmt.Sprint(e.Key, "@", e.Index))
			if e.Key == last {
				return got, gap
			}
		}
	}
}

func TestTheEventStreamIsResumedOnAnyServerAcrossAFailover(t *testing.T) {
	c := cluster(t)
	first := c.Leader()
	for i := range 3 {
		must(t, first, "PUT", "/v1/jobs", registered(fmt.Sprint("before", i), 1))
	}
	all, gap := eventsFrom(t, first, 1, "before2")
	if gap != nil || len(all) != 3 {
		t.Fatalf("the first leader streams %q, gap %+v", all, gap)
	}
	_, at, _ := strings.Cut(all[1], "@")
	index, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	second := c.Leader()
	must(t, second, "PUT", "/v1/jobs", registered("after", 1))
	want, gap := eventsFrom(t, second, index+1, "after")
	if gap != nil || len(want) != 2 || want[0] != all[2] {
		t.Errorf("the second leader resumes with %q, gap %+v; %q is to come first", want, gap, all[2])
	}
	for _, m := range c.All {
		if m == first || m == second {
			continue
		}
		if got, gap := eventsFrom(t, m, index+1, "after"); fmt.Sprint(got) != fmt.Sprint(want) || gap != nil {
			t.Errorf("a follower resumes with %q, gap %+v, the leader with %q", got, gap, want)
		}
	}
}

func TestAnIndexNeverGoesBackwardsForAClientThatMovesToAServerThatLags(t *testing.T) {
	c := cluster(t)
	leader, lags := c.Leader(), c.Follower()
	must(t, lags, "GET", "/v1/jobs?stale", nil)
	lags.Cut()
	must(t, leader, "PUT", "/v1/jobs", registered("web", 1))
	seen, _ := must(t, leader, "GET", "/v1/jobs", nil)
	index, err := strconv.ParseUint(seen.Header.Get("X-Nomad-Index"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/v1/jobs?stale&index=%d&wait=10ms", index)
	if resp, text := to(t, lags, "GET", path, nil); resp.StatusCode == http.StatusOK {
		t.Errorf("a server that is cut off, and has not what the client has seen, answers with index %s: %s", resp.Header.Get("X-Nomad-Index"), text)
	}
	lags.Heal()
	testkit.Eventually(t, "the server answers again, with an index that is not older", func() bool {
		resp, text := to(t, lags, "GET", path, nil)
		got, _ := strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
		if resp.StatusCode == http.StatusOK && (got < index || !strings.Contains(text, `"web"`)) {
			t.Fatalf("the index went from %d to %d: %s", index, got, text)
		}
		return resp.StatusCode == http.StatusOK
	})
}
