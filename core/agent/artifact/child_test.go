// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// processesIn lists processes whose working folder is below dir.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range procs {
		if at, err := os.Readlink(p); err == nil && strings.HasPrefix(at, dir) {
			out = append(out, p)
		}
	}
	return out
}

// until waits for a condition of other processes.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after a minute, still not: %s", what)
		}
	}
}

// hanging is a server that answers nobody; asked is closed by its first request.
func hanging(t *testing.T) (s *httptest.Server, asked chan struct{}) {
	t.Helper()
	asked = make(chan struct{})
	var once sync.Once
	s = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s, asked
}

func TestACancelledFetchEndsWithAllItsProcesses(t *testing.T) {
	for _, forced := range []string{"", "git::"} {
		if forced != "" {
			needsGit(t)
		}
		s, asked := hanging(t)
		p := newPlace(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		f := p.fetcher()
		go func() {
			ended <- f.Fetch(ctx, artifact.Request{Artifact: &model.TaskArtifact{GetterSource: forced + s.URL + "/r", RelativeDest: "local/"}, TaskDir: p.task}, nil)
		}()
		<-asked
		if len(processesIn(t, p.alloc)) == 0 {
			t.Error("no process works in the staging folder; the test sees nothing")
		}
		cancel()
		if err := <-ended; errdefs.ClassOf(err) != errdefs.Canceled {
			t.Errorf("got %v (%s), want it canceled", err, errdefs.ClassOf(err))
		}
		until(t, "all processes of the fetch have ended", func() bool { return len(processesIn(t, p.alloc)) == 0 })
		p.wants()
	}
}

// script is a child that does something else.
func script(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "child")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAChildThatMisbehavesIsAnErrorWithItsLastWords(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	for text, says := range map[string]string{
		"read x; echo it hurts >&2; exit 7":           "it hurts",
		"kill -9 $$":                                  "killed",
		"read x; echo no json; sleep 1000":            "invalid character",
		"exit 0":                                      "",
		"read x; head -c 300000 /dev/zero; sleep 600": "too long",
		"read x; sleep 1000 & echo '{\"Done\":true,\"Class\":\"internal\",\"Text\":\"odd\"}'; sleep 1000": "odd",
	} {
		p := newPlace(t)
		p.cfg.Binary = script(t, text)
		err := p.fetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f"})
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v (%s), want an unavailable child and %q", text, err, errdefs.ClassOf(err), says)
		}
		p.wants()
		until(t, "all processes of the child have ended", func() bool { return len(processesIn(t, p.alloc)) == 0 })
	}
}

func TestAChildThatNeverEndsIsKilledAtItsDeadline(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	p := newPlace(t)
	p.cfg.Binary = script(t, "sleep 1000 & sleep 1000")
	p.cfg.KillAfter = 200 * time.Millisecond
	err := p.fetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f"})
	if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "200ms") {
		t.Errorf("got %v, want an error that names the deadline", err)
	}
	until(t, "all processes of the child have ended", func() bool { return len(processesIn(t, p.alloc)) == 0 })
}

func TestAMissingChildIsAnErrorThatSaysWhatToInstall(t *testing.T) {
	p := newPlace(t)
	p.cfg.Binary = filepath.Join(t.TempDir(), "none")
	err := p.fetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f"})
	if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "drover-artifact") || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v", err)
	}
	t.Setenv(artifact.BinaryVariable, child)
	p.cfg.Binary = ""
	s := serve(t, map[string][]byte{"/f": []byte("f")})
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f"})
}

func TestTheChildEndsWithItsAgent(t *testing.T) {
	s, asked := hanging(t)
	dir := t.TempDir()
	for _, d := range []string{wire.TmpName, wire.HomeName} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(child)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := wire.Write(in, wire.Request{Source: s.URL + "/f", Mode: "any", Staging: dir, Isolate: true}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := in.Close(); err != nil { // as the kernel does for an agent that was killed
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the child says that all went well")
		}
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("the child goes on without its agent")
	}
}

func TestTheChildRefusesWhatIsNoRequest(t *testing.T) {
	for _, text := range []string{"", "x\n", "{}\n", `{"Source":"http://x","Mode":"any","Staging":"relative"}` + "\n", strings.Repeat("x", 2<<20)} {
		cmd := exec.Command(child)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		var a wire.Answer
		if jerr := json.Unmarshal(out, &a); jerr != nil || err == nil || !a.Done || a.Class != errdefs.InvalidArgument {
			t.Errorf("request %.40q: got %s, %v, want it refused", text, out, err)
		}
	}
}

func TestFetchesAtOnceAreBounded(t *testing.T) {
	const slots, all = 2, 6
	var now, most atomic.Int64
	open := make(chan struct{})
	full := make(chan struct{}, all)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		full <- struct{}{}
		<-open
		now.Add(-1)
		_, _ = io.WriteString(w, "f")
	}))
	defer s.Close()
	p := newPlace(t)
	p.cfg.MaxParallel = slots
	f := p.fetcher()
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			err := f.Fetch(t.Context(), artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/f", GetterMode: "file", RelativeDest: "local/f" + string(rune('0'+i))}, TaskDir: p.task}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range slots {
		<-full
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Fetch(ctx, artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/f"}, TaskDir: p.task}, nil); errdefs.ClassOf(err) != errdefs.Canceled {
		t.Errorf("a fetch that waits for its turn and is canceled: got %v", err)
	}
	close(open)
	wg.Wait()
	if most.Load() != slots {
		t.Errorf("%d fetches ran at once, want %d", most.Load(), slots)
	}
	p.wants("web/local/f0", "web/local/f1", "web/local/f2", "web/local/f3", "web/local/f4", "web/local/f5")
}

func TestWhatAKilledAgentLeftIsRemoved(t *testing.T) {
	s := serve(t, map[string][]byte{"/f": []byte("f")})
	p := newPlace(t)
	stale := filepath.Join(p.alloc, ".artifact-123", "out")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f"})
	p.wants("web/local/f")
}

func TestProgressTellsTheBytesThatCame(t *testing.T) {
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<20))
		_ = http.NewResponseController(w).Flush()
		<-hold
	}))
	defer s.Close()
	p := newPlace(t)
	var once sync.Once
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := p.fetcher().Fetch(ctx, artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/f", RelativeDest: "local/"}, TaskDir: p.task}, func(n int64) {
		if n == 1<<20 {
			once.Do(func() { close(hold) })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASourceThatHangsHoldsUpNobodyElse(t *testing.T) {
	stuck, asked := hanging(t)
	s := serve(t, map[string][]byte{"/f": []byte("f")})
	p := newPlace(t)
	p.cfg.MaxParallel, p.cfg.StallAfter = 1, 50*time.Millisecond
	f := p.fetcher()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Fetch(ctx, artifact.Request{Artifact: &model.TaskArtifact{GetterSource: stuck.URL + "/f", RelativeDest: "local/"}, TaskDir: p.task}, nil)
	}()
	<-asked
	if err := f.Fetch(t.Context(), artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/f", RelativeDest: "local/"}, TaskDir: p.task}, nil); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
	p.wants("web/local/f")
}

func TestWhatAChildLeavesIsInspectedWhateverItSays(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	for text, says := range map[string]string{
		"mkfifo out/x":                          "fifo",
		"echo x > out/x; chmod 4755 out/x":      "setuid",
		"echo x > tmp/x; ln tmp/x out/x":        "hard link",
		"ln -s ../../../../../etc/passwd out/x": "points outside",
		"ln -s /etc/passwd out/x":               "points outside",
		"rmdir out; ln -s /etc out":             "a link",
		"rmdir out; echo x > out":               "a file",
		"rmdir out":                             "nothing",
		"mkdir out/.. 2>/dev/null; d=out; i=0; while [ $i -lt 600 ]; do d=$d/d; i=$((i+1)); done; mkdir -p $d": "deeper",
	} {
		p := newPlace(t)
		p.cfg.Binary = script(t, "read x; mkdir out; "+text+"; echo '{\"Done\":true}'")
		err := p.fetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f"})
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want it refused as %q", text, err, says)
		}
		p.wants()
	}
	p := newPlace(t)
	p.cfg.Binary = script(t, `read x; mkdir -p out/d; echo x > out/d/x; ln out/d/x out/y; ln -s d/x out/z; ln -s none out/dangling; chmod 0 out/d; echo '{"Done":true}'`)
	p.mustFetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f"})
	p.wants("web/local/d/x", "web/local/dangling", "web/local/y", "web/local/z")
}
