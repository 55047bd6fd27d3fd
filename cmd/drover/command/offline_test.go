// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// stoppedServer creates the data directory of a server that stored a namespace, took
// a snapshot, stored more, and stopped. It also returns the snapshot's archive.
func stoppedServer(t *testing.T) (dir, archive string) {
	t.Helper()
	dir = t.TempDir()
	archive = filepath.Join(t.TempDir(), "state.snap")
	n, err := consensus.Open(consensus.Config{NodeID: "s1", DataDir: filepath.Join(dir, "server", "raft"), Dev: true, Machine: fsm.New(state.New(), hclog.NewNullLogger()), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	propose := func(c fsm.Command) {
		t.Helper()
		b, err := fsm.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		for { // until the server has elected itself
			if _, _, err = n.Propose(ctx, b); err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	propose(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "first"}}})
	a, err := n.SaveArchive(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	propose(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "second"}}})
	propose(&fsm.RegisterNode{Node: &model.Node{ID: nodeID, Name: "n1", SecretID: "hush", NodePool: "default", Status: "ready"}})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, archive
}

// stateOf runs a command that prints state, and returns the decoded state and the
// output.
func stateOf(t *testing.T, args ...string) (out struct {
	Index      uint64
	Namespaces []struct{ Name string }
	Nodes      []struct{ ID string }
}, text string) {
	t.Helper()
	r := execute(t, nil, args...)
	if r.code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, r.code, r.err)
	}
	if err := json.Unmarshal([]byte(r.out), &out); err != nil {
		t.Fatal(err)
	}
	return out, r.out
}

func TestTheDataOfAStoppedServerCanBeRead(t *testing.T) {
	dir, archive := stoppedServer(t)
	if r := execute(t, nil, "operator", "raft", "info", dir); r.code != 0 || !strings.Contains(r.out, "Current Term = 2") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
	logs := execute(t, nil, "operator", "raft", "logs", dir)
	lines := strings.Split(strings.TrimSpace(logs.out), "\n")
	index := uint64(0)
	for _, l := range lines {
		var e struct {
			Index       uint64
			CommandType string
			Error       string
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil || e.Error != "" || index != 0 && e.Index != index+1 {
			t.Errorf("entry %s: %v", l, err)
		}
		index = e.Index
	}
	if !strings.Contains(logs.out, `"CommandType":"UpsertNamespaces"`) || strings.Contains(logs.out, "hush") {
		t.Errorf("the log lacks a command or shows a secret:\n%s", logs.out)
	}

	whole, text := stateOf(t, "operator", "raft", "state", dir)
	if len(whole.Namespaces) != 3 || len(whole.Nodes) != 1 || strings.Contains(text, "hush") {
		t.Errorf("the state is\n%s", text)
	}
	saved, _ := stateOf(t, "operator", "snapshot", "state", archive)
	if len(saved.Namespaces) != 2 || len(saved.Nodes) != 0 {
		t.Errorf("the snapshot holds %+v", saved)
	}
	some, _ := stateOf(t, "operator", "snapshot", "state", "-filter", `Name == "first"`, archive)
	if len(some.Namespaces) != 1 {
		t.Errorf("the filter leaves %+v", some)
	}
	if r := execute(t, nil, "operator", "snapshot", "inspect", archive); r.code != 0 || !strings.Contains(r.out, "Index") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign.snap")
	writeForeign(t, foreign)
	for _, verb := range []string{"inspect", "state"} {
		if r := execute(t, nil, "operator", "snapshot", verb, foreign); r.code != 1 || !strings.Contains(r.err, "not the state of a snapshot of Drover") {
			t.Errorf("%s of a snapshot of another program: exit code %d: %s%s", verb, r.code, r.out, r.err)
		}
	}
	if err := os.Truncate(archive, 100); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, nil, "operator", "snapshot", "inspect", archive); r.code != 1 || !strings.Contains(r.err, "not a whole snapshot") {
		t.Errorf("a damaged snapshot: exit code %d: %s", r.code, r.err)
	}
	for _, args := range [][]string{{"operator", "raft", "info"}, {"operator", "client-state"}} {
		if r := execute(t, nil, append(args, t.TempDir())...); r.code != 1 || !strings.Contains(r.err, "holds no") {
			t.Errorf("%v of an empty folder: exit code %d: %s", args, r.code, r.err)
		}
	}
}

// writeForeign writes an archive of the form that Drover and Nomad share, whose state is not
// Drover's.
func writeForeign(t *testing.T, file string) {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	sums := ""
	for _, f := range [][2]string{{"meta.json", `{"Version":1,"ID":"2-10-1","Index":10,"Term":2,"Size":64}`}, {"state.bin", strings.Repeat("\x81", 64)}, {"SHA256SUMS", ""}} {
		body := f[1]
		if body == "" {
			body = sums
		}
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(body)), f[0])
		if err := archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close(), os.WriteFile(file, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}
