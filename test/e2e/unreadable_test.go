// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestAnAgentWhoseLogHasAnEntryOfANewerVersionStopsAndSaysSo(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 1, "", "exec sleep 1000"))
	tasks := a.PIDs(a.Await("web", "running", 1))
	a.Kill()

	dir := filepath.Join(a.Data, "server")
	id, err := os.ReadFile(filepath.Join(dir, "server-id"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := consensus.Open(consensus.Config{NodeID: string(id), DataDir: filepath.Join(dir, "raft"), Machine: fsm.New(state.New(), hclog.NewNullLogger())})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for !<-n.Leadership() {
	}
	if _, _, err := n.Propose(ctx, []byte{1, 255}); err == nil {
		t.Fatal("the entry was read")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}

	a.Launch()
	a.Eventually(15*time.Second, "the agent has ended", func() bool { return !a.Alive() })
	if code := a.Cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with status %d", code)
	}
	if log := a.Log(); !strings.Contains(log, "of the log cannot be read, and nothing from there on is applied") || !strings.Contains(log, "run that version here") {
		t.Error("it does not say why")
	}
	for alloc, pid := range tasks {
		if !harness.Running(pid) {
			t.Errorf("the task of %s has ended with it", alloc)
		}
	}
}
