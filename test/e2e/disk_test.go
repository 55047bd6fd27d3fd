// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// onSmallDisk puts the agent's data on a file system of the given size.
func (a *agent) onSmallDisk(size string) {
	a.T.Helper()
	if err := os.MkdirAll(a.Data, 0o755); err != nil {
		a.T.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", a.Data, "tmpfs", 0, "size="+size); err != nil {
		a.T.Skipf("a small file system cannot be mounted here: %v", err)
	}
	a.T.Cleanup(func() {
		a.KillAll()
		if err := mounts.Detach(a.Data); err != nil { // secrets are mounts
			a.T.Log(err)
		}
		_ = syscall.Unmount(a.Data, syscall.MNT_DETACH) // if it is still mounted
	})
}

func TestAServerWithANearlyFullDiskStartsReadOnlyAndSaysSo(t *testing.T) {
	a := newAgent(t)
	a.onSmallDisk("256m")
	a.start()
	a.Run(harness.Shell("kept", "service", 1, harness.Quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	pids := a.PIDs(a.Await("kept", "running", 1))
	a.terminate()
	filler := filepath.Join(a.Data, "filler")
	fillBut(t, filler, a.Data, 100<<20)
	a.Launch()
	health := func() (int, string) {
		r, err := http.Get(a.Addr + "/v1/agent/health")
		if err != nil {
			return 0, ""
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return 0, ""
		}
		return r.StatusCode, string(body)
	}
	a.Eventually(20*time.Second, "health says that it is read-only", func() bool {
		code, body := health()
		return code == 500 && strings.Contains(body, "read-only: the disk of")
	})
	if code, body := a.HTTPGet("/v1/job/kept"); code != 200 {
		t.Errorf("a read: %d %s", code, body)
	}
	if out, code := a.CLI("var", "put", "app/db", "x=1"); code == 0 || !strings.Contains(out, "is full") {
		t.Errorf("a write: %d %s", code, out)
	}
	if _, body := a.HTTPGet("/v1/metrics"); !strings.Contains(body, "nomad.nomad.read_only") {
		t.Error("metrics do not say so")
	}
	a.stay(pids)
	a.remove(filler)
	a.Eventually(20*time.Second, "writes are taken, and the node is ready", func() bool {
		_, code := a.CLI("var", "put", "-force", "app/db", "x=1")
		nodes, _, err := a.Nodes(a.Context(), nil)
		return code == 0 && err == nil && len(nodes) == 1 && nodes[0].Status == model.NodeStatusReady
	})
	if live(pids) != 1 {
		t.Error("the task has ended")
	}

	a.terminate()
	fillBut(t, filler, a.Data, 4<<20)
	a.Launch()
	select {
	case <-a.Done:
	case <-time.After(harness.Patience):
		t.Fatal("it runs on a disk without any room")
	}
	if log := a.Log(); !strings.Contains(log, "free some space and try again") {
		t.Errorf("it does not say why it did not start: %s", log[max(0, len(log)-500):])
	}
}

// fillBut writes a file until the file system has only the given number of free
// bytes.
func fillBut(t *testing.T, path, dir string, free uint64) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, io.LimitReader(endless('f'), int64(fs.Bavail*uint64(fs.Bsize)-free))); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskIsAnErrorThatReadsOutlive(t *testing.T) {
	a := newAgent(t)
	a.onSmallDisk("192m")
	a.start()
	// With 64 KiB of metadata each, jobs fill the log's files soon.
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: strings.Replace(harness.Shell("NAME", "service", 0, "", "sleep 60"), "type =", fmt.Sprintf("meta = { fill = %q }\n  type =", strings.Repeat("0123456789abcdef", 4<<10)), 1), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	register := func(i int) (string, error) {
		id := fmt.Sprintf("job-%d", i)
		_, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: json.RawMessage(strings.ReplaceAll(string(draft), "NAME", id))})
		return id, err
	}
	kept, err := register(0)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(a.Data, "filler")
	fill(t, filler)
	var full error
	acked := []string{kept}
	for i := 1; i < 3000 && full == nil; i++ {
		var id string
		if id, full = register(i); full == nil {
			acked = append(acked, id)
		}
	}
	t.Logf("%d jobs registered, then: %v", len(acked), full)
	var answer *client.Error
	if !errors.As(full, &answer) {
		t.Errorf("the full disk shows as %v, want an answer of the agent", full)
	}
	if !a.Alive() {
		t.Fatal("the agent is down")
	}
	if code, body := a.HTTPGet("/v1/job/" + kept); code != 200 {
		t.Errorf("a read on the full disk: %d %s", code, body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.Eventually(10*time.Second, "writes are accepted again", func() bool {
		_, err := register(5000)
		return err == nil
	})
	a.Kill()
	a.start()
	for _, id := range acked {
		if code, body := a.HTTPGet("/v1/job/" + id); code != 200 {
			t.Fatalf("%s after a restart: %d %.200s", id, code, body)
		}
	}
}

// fill writes a file until the file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, io.LimitReader(endless('f'), 1<<30)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}
