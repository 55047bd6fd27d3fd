// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
)

// head writes the head of a request with a body of so many bytes.
func head(t *testing.T, c net.Conn, path string, size int) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", path, size); err != nil {
		t.Error(err)
	}
}

// answered reads an answer and says its status and the time that it took to come.
func answered(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	addr := listen(t, &fakeBackend{view: &fakeView{index: 3}}, api.Config{BodyTimeout: 300 * time.Millisecond})
	silent := dial(t, addr)
	head(t, silent, "/v1/jobs", 1000)
	trickle := dial(t, addr)
	head(t, trickle, "/v1/jobs", 1_000_000)
	stop := make(chan struct{})
	var trickling sync.WaitGroup
	trickling.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if _, err := trickle.Write([]byte(" ")); err != nil {
					return
				}
			}
		}
	})
	for name, c := range map[string]net.Conn{"silent": silent, "trickling": trickle} {
		if status, text := answered(t, c); status != http.StatusRequestTimeout || !strings.Contains(text, "did not arrive in time") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	close(stop)
	trickling.Wait()
}

func TestALongPollOutlivesTheDeadlineOfItsBody(t *testing.T) {
	b := &fakeBackend{view: &fakeView{index: 3}, watched: make(chan struct{}, 8), changed: make(chan struct{})}
	addr := listen(t, b, api.Config{BodyTimeout: 100 * time.Millisecond})
	c := dial(t, addr)
	if _, err := fmt.Fprintf(c, "GET /v1/jobs?index=1000000&wait=500ms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	if status, text := answered(t, c); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	head(t, c, "/v1/jobs", 2) // the connection goes on
	if _, err := c.Write([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if status, text := answered(t, c); status != 400 || !strings.Contains(text, "Job must be specified") {
		t.Errorf("%d %s", status, text)
	}
}

func TestUnfinishedBodiesHoldBoundedMemoryAndSmallRequestsAreAnswered(t *testing.T) {
	addr := listen(t, &fakeBackend{view: &fakeView{index: 3}}, api.Config{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const many, size = 30, 15 << 20
	piece := bytes.Repeat([]byte(" "), size-1)
	var sending sync.WaitGroup
	var refused atomic.Int32
	conns := make([]net.Conn, many)
	for i := range conns {
		conns[i] = dial(t, addr)
		sending.Go(func() {
			head(t, conns[i], "/v1/jobs", size)
			if _, err := conns[i].Write(piece); err == nil { // all but the last byte
				_, _ = conns[i].Read(make([]byte, 1))
			}
			refused.Add(1) // it was answered before its end
		})
	}
	defer sending.Wait()
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for end := time.Now().Add(time.Minute); refused.Load() < many-9; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d bodies of 15 MiB are held", many-refused.Load(), many)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 400 {
		t.Errorf("they hold %d MiB", mb)
	}
	small := dial(t, addr)
	head(t, small, "/v1/jobs", 2)
	if _, err := small.Write([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if status, text := answered(t, small); status != 400 {
		t.Errorf("a small request: %d %s", status, text)
	}
}

func TestABodyThatHoldsTooMuchIsRefusedBeforeItIsBuilt(t *testing.T) {
	web := serve(t, &fakeBackend{view: &fakeView{index: 3}})
	for body, want := range map[string]string{
		`{"Job":[` + strings.Repeat(`{},`, 100_001) + `{}]}`:  "holds more than 100000 objects and lists",
		`{"Job":[` + strings.Repeat(`0,`, 2_000_001) + `0]}`:  "2000000 values",
		strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200):   "nested more than 128 levels",
		`{"Job":{"ID":"a"},"Submission":{"Source":["a",{}]}}`: "Submission.Source must be text, not a list",
	} {
		r, text := ask(t, web, "PUT", "/v1/jobs", body)
		if r.StatusCode < 400 || r.StatusCode >= 500 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %.200s", body, r.StatusCode, text)
		}
	}
}

func TestAWrongTypeInABodyIsNamedWithoutGoTypes(t *testing.T) {
	web := serve(t, &fakeBackend{view: &fakeView{index: 3}})
	for _, c := range []struct{ path, body, want string }{
		{"/v1/jobs", `{"Job":{"ID":"a"},"JobModifyIndex":"7"}`, "JobModifyIndex must be a whole number, not text"},
		{"/v1/jobs", "{\"Job\":{\"ID\":\"caf\xe9\"}}", "the request body is not UTF-8 from byte 17 on; write text as UTF-8"},
		{"/v1/jobs", `[]`, "the document must be an object, not a list"},
		{"/v1/job/a/scale", `{"Count":"3"}`, "Count must be a whole number, not text"},
		{"/v1/job/a/plan", `{"Job":{"ID":7}}`, "Job.ID must be text, not 7"},
		{"/v1/namespace/a", `{"Meta":{"k":1}}`, `Meta["k"] must be text, not 1`},
		{"/v1/node/b/drain", `{"DrainSpec":{"Deadline":"1h","IgnoreSystemJobs":"no"}}`, "DrainSpec."},
	} {
		r, text := ask(t, web, "PUT", c.path, c.body)
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(text, c.want) || strings.Contains(text, "Go ") {
			t.Errorf("%s %s: %d %.200s", c.path, c.body, r.StatusCode, text)
		}
	}
}
