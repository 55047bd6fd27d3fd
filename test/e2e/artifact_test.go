// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// archive returns a .tar.gz with one script.
func archive(t *testing.T, name, script string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(script)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{w.Close, z.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestArtifactsAreFetchedOnceAndOneThatHangsBlocksNobody(t *testing.T) {
	a := newAgent(t)
	harness.BuildFetcher(t)
	a.start()
	body := archive(t, "run.sh", "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600")
	var fetched atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/run.tgz" {
			if r.Method == http.MethodGet {
				fetched.Add(1)
			}
			_, _ = w.Write(body)
			return
		}
		_, _ = w.Write([]byte("and so on")) // and the response never ends
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	with := func(id, file string) string {
		return job(id, "service", part("t", "exec /bin/sh local/run.sh", fmt.Sprintf("artifact { source = %q }", web.URL+file)))
	}
	a.Run(with("hung", "/endless"))
	a.Await("hung", model.AllocClientStatusPending, 1)
	a.Run(with("good", "/run.tgz"))
	running := a.Await("good", model.AllocClientStatusRunning, 1)
	before := a.PIDs(running)
	got := fetched.Load()
	a.Kill()
	a.start()
	if now := a.PIDs(a.Await("good", model.AllocClientStatusRunning, 1)); fmt.Sprint(now) != fmt.Sprint(before) || fetched.Load() != got {
		t.Errorf("pids before %v, after %v; fetched %d times, then %d", before, now, got, fetched.Load())
	}
	a.Eventually(10*time.Second, "the node takes a restart", func() bool { // the node's session starts after the API
		return a.RestartAllocation(a.Context(), running[0].ID, "", false) == nil
	})
	a.Eventually(20*time.Second, "the task runs again", func() bool {
		x := a.Allocs("good", model.AllocClientStatusRunning)
		return len(x) == 1 && x[0].TaskStates["t"].Restarts == 1 && x[0].TaskStates["t"].State == model.TaskStateRunning
	})
	if fetched.Load() != got {
		t.Errorf("the restart fetched again: %d times, then %d", got, fetched.Load())
	}
	a.Await("hung", model.AllocClientStatusPending, 1)
	a.Must("job", "stop", "-detach", "hung")
	for _, x := range a.Await("hung", model.AllocClientStatusComplete, 1) {
		var events []string
		for _, e := range x.TaskStates["t"].Events {
			events = append(events, e.DisplayMessage)
		}
		if s := strings.Join(events, "; "); !strings.Contains(s, "Client is downloading artifacts") || strings.Contains(s, "failed") {
			t.Errorf("events: %s", s)
		}
	}
	a.Eventually(10*time.Second, "no fetch is left", func() bool { return len(a.Processes("drover-artifact")) == 0 })
}
