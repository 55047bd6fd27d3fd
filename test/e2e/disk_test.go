// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
)

func TestAFullDiskIsAnErrorThatReadsOutlive(t *testing.T) {
	a := newAgent(t)
	if err := os.MkdirAll(a.data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", a.data, "tmpfs", 0, "size=192m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		a.eventually(5*time.Second, "the small file system is unmounted", func() bool {
			for _, pid := range a.processes("") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return syscall.Unmount(a.data, 0) == nil
		})
	})
	a.start()
	// Metadata of 64 KiB each fills the log's files soon.
	draft, err := a.ParseJob(a.ctx(), &api.JobParseRequest{JobHCL: strings.Replace(shell("NAME", "service", 0, "", "sleep 60"), "type =", fmt.Sprintf("meta = { fill = %q }\n  type =", strings.Repeat("0123456789abcdef", 4<<10)), 1), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	register := func(i int) (string, error) {
		id := fmt.Sprintf("job-%d", i)
		_, err := a.RegisterJob(a.ctx(), &api.JobRegisterRequest{Job: json.RawMessage(strings.ReplaceAll(string(draft), "NAME", id))})
		return id, err
	}
	kept, err := register(0)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(a.data, "filler")
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
	if !a.alive() {
		t.Fatal("the agent is down")
	}
	if code, body := a.get("/v1/job/" + kept); code != 200 {
		t.Errorf("a read on the full disk: %d %s", code, body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.eventually(10*time.Second, "writes are accepted again", func() bool {
		_, err := register(5000)
		return err == nil
	})
	a.kill()
	a.start()
	for _, id := range acked {
		if code, body := a.get("/v1/job/" + id); code != 200 {
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
