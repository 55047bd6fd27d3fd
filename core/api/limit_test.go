// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// listen serves the API on a port with a configuration, until the test ends.
func listen(t *testing.T, b *fakeBackend, cfg api.Config) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- api.New(b, hclog.NewNullLogger(), cfg).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// say makes a request on a connection and returns the status line of the answer.
func say(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestAnAddressWithTooManyConnectionsIsToldAndOthersPlacesAreGivenBack(t *testing.T) {
	addr := listen(t, newBackend(threeJobs()), api.Config{ConnsPerClient: 3})
	var held []net.Conn
	for range 3 {
		c := dial(t, addr)
		if got := say(t, c); got != "HTTP/1.1 200 OK" {
			t.Fatal(got)
		}
		held = append(held, c)
	}
	body, err := io.ReadAll(dial(t, addr))
	if err != nil || !strings.HasPrefix(string(body), "HTTP/1.1 429 Too Many Requests\r\n") || !strings.Contains(string(body), "too many concurrent connections") {
		t.Errorf("the fourth got %q, %v", body, err)
	}
	held[0].Close()
	for end := time.Now().Add(time.Minute); say(t, dial(t, addr)) != "HTTP/1.1 200 OK"; {
		if time.Now().After(end) {
			t.Fatal("a place that was given back is not given to another")
		}
	}
}

func TestAConnectionThatSendsItsHeadSlowlyIsClosed(t *testing.T) {
	addr := listen(t, newBackend(threeJobs()), api.Config{HeaderTimeout: 50 * time.Millisecond})
	c := dial(t, addr)
	if _, err := io.WriteString(c, "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil { // ends with an answer or none, but it ends
		if op, ok := err.(net.Error); ok && op.Timeout() {
			t.Fatal("the connection stays open")
		}
	}
}

// idle is how many idle connections the test below opens: both ends are in this
// process, which may have 20,000 files.
const idle = 9_000

func TestThousandsOfIdleConnectionsCostLittleAndOthersAreServed(t *testing.T) {
	if free := openFiles(); free < 2*idle+500 {
		t.Skipf("this process may open %d files", free)
	}
	addr := listen(t, newBackend(threeJobs()), api.Config{ConnsPerClient: -1, HeaderTimeout: time.Minute})
	before := inUse()
	conns := make([]net.Conn, idle)
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < idle; i += 8 {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				conns[i] = c
			}
		})
	}
	wg.Wait()
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	if got := say(t, dial(t, addr)); got != "HTTP/1.1 200 OK" {
		t.Errorf("beside them: %s", got)
	}
	each := (inUse() - before) / idle
	t.Logf("%d bytes of heap and stack for both ends of a connection", each)
	if limit := int64(64 << 10); each > limit {
		t.Errorf("an idle connection costs %d bytes, more than %d", each, limit)
	}
}

// inUse is the heap and the stacks that are in use.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestBodiesThatAreNestedTooDeeplyAreRefusedBeforeTheyAreRead(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	deep := func(n int) string {
		return `{"Job":{"ID":"a","x":"` + strings.Repeat("[", 500) + `","Meta":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `}}`
	}
	if resp, body := ask(t, srv, "PUT", "/v1/jobs", deep(10_000)); resp.StatusCode != 400 || !strings.Contains(body, "128 levels") {
		t.Errorf("got %d %.100q", resp.StatusCode, body)
	}
	if _, body := ask(t, srv, "PUT", "/v1/jobs", deep(100)); strings.Contains(body, "levels") {
		t.Errorf("100 levels, and brackets in a string: %.100q", body)
	}
}

func TestFiltersThatAreExpensiveAreRefusedAndPlainOnesAreNot(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	get := func(filter string) (int, string, time.Duration) {
		begin := time.Now()
		resp, body := ask(t, srv, "GET", "/v1/jobs?filter="+url.QueryEscape(filter), "")
		return resp.StatusCode, body, time.Since(begin)
	}
	nested := `ID == "a"`
	for range 12 {
		nested = "((" + nested + "))"
	}
	tree := `ID == "a"`
	for range 8 {
		tree = "(" + tree + " and " + tree + ")"
	}
	for name, filter := range map[string]string{"long": strings.Repeat(`ID == "a" or `, 1000) + `ID == "b"`, "nested": nested, "tree": tree} {
		status, body, took := get(filter)
		if status != 400 || !strings.Contains(body, "filter expression") {
			t.Errorf("%s: %d %.120q", name, status, body)
		}
		if took > 20*time.Second { // unbounded it takes hours
			t.Errorf("%s took %v", name, took)
		}
	}
	for _, filter := range []string{`ID == "a"`, `ID matches "^(a+)+$" and Type == "service"`, `(ID == "a" and (Type == "service" or Type == "batch"))`, `Meta.k == "v"`} {
		if status, body, _ := get(filter); status != 200 || !strings.Contains(body, `"ID":"a"`) {
			t.Errorf("%s: %d %.120q", filter, status, body)
		}
	}
}

func TestASubscriberThatFallsBehindIsToldAndCutOff(t *testing.T) {
	b := newBackend(oneAlloc())
	s := fed(t, b, api.Config{})
	slow := newSlowWriter()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "/v1/event/stream?index=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		s.Handler().ServeHTTP(slow, req)
	}()
	b.changes <- []state.Change{{Table: state.TableJobs, Index: 9, New: &model.Job{Namespace: "default", ID: "web"}}}
	<-slow.stuck // in the write of that event: it reads nothing while others come
	for i := range uint64(5000) {
		b.changes <- []state.Change{{Table: state.TableJobs, Index: 10 + i, New: &model.Job{Namespace: "default", ID: "web"}}}
	}
	b.changes <- nil // taken once all others were
	close(slow.release)
	if got := <-ended; got != http.ErrAbortHandler {
		t.Errorf("the stream ended with %v", got)
	}
	if body := slow.text(); !strings.Contains(body, "too slow and missed events") {
		t.Errorf("the subscriber was told %.200q", body)
	}
}

// slowWriter holds the write of an event up until it is released.
type slowWriter struct {
	header         http.Header
	stuck, release chan struct{}
	once           sync.Once
	mu             sync.Mutex
	body           strings.Builder
}

func newSlowWriter() *slowWriter {
	return &slowWriter{header: http.Header{}, stuck: make(chan struct{}), release: make(chan struct{})}
}

func (w *slowWriter) Header() http.Header { return w.header }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Flush()              {}
func (w *slowWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Events") {
		w.once.Do(func() { close(w.stuck); <-w.release })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *slowWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

func TestWhatTellsOfTheInsideOfTheProcessNeedsTheDebugFlag(t *testing.T) {
	for _, debug := range []bool{false, true} {
		addr := listen(t, newBackend(threeJobs()), api.Config{EnableDebug: debug})
		for path, on := range map[string]int{"/v1/agent/pprof/goroutine": 200, "/v1/agent/pprof/nope": 404, "/v1/agent/pprof/profile?seconds=9999": 400} {
			want := on
			if !debug {
				want = 403
			}
			resp, err := http.Get(fmt.Sprintf("http://%s%s", addr, path))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("debug %v: %s answers %d, not %d", debug, path, resp.StatusCode, want)
			}
		}
	}
}

func TestAnAnswerDoesNotSendARefusedRequestBack(t *testing.T) {
	addr := listen(t, newBackend(oneAlloc()), api.Config{})
	long := strings.Repeat("x", 1<<20)
	for what, c := range map[string]struct{ path, body string }{
		"a scheduler algorithm": {"/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm": "` + long + `"}`},
		"the name of a field":   {"/v1/node/" + uuid + "/eligibility", `{"Eligibility": {"` + long + `": 1}}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // all of it was read
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, %v", what, resp.StatusCode, err)
		}
		if len(body) > errdefs.MaxText+100 {
			t.Errorf("%s: the answer has %d bytes", what, len(body))
		}
		if what == "a scheduler algorithm" && (!strings.HasPrefix(string(body), "invalid scheduler algorithm: xxx") || !strings.Contains(string(body), "bytes are left out")) {
			t.Errorf("%s: %.100s", what, body)
		}
	}
}
