// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/consensus"
)

func TestTheLogTellsOnceThatAServerIsDownAndThatElectionsFail(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	log, forget := consensus.NewRepeats(hclog.New(&hclog.LoggerOptions{Output: &out}), func() time.Time { return now })
	count := func(want int, text string) {
		t.Helper()
		if n := strings.Count(out.String(), text); n != want {
			t.Errorf("%q is there %d times, not %d:\n%s", text, n, want, out.String())
		}
	}
	refused := func(port string) error {
		return errors.New("read tcp 10.0.0.1:" + port + "->10.0.0.3:4647: connection refused")
	}
	down := func() {
		log.Error("failed to heartbeat to", "peer", "10.0.0.3:4647", "backoff time", now.String(), "error", refused(now.Format("0405")))
		log.Error("failed to appendEntries to", "peer", consensus.Member("c", "10.0.0.3:4647"), "error", refused("1"))
		log.Warn("failed to contact", "server-id", "c", "time", now.String())
	}
	for range 100 {
		now = now.Add(time.Second)
		down()
		log.Error("failed to heartbeat to", "peer", "10.0.0.2:4647", "error", refused("1"))
	}
	count(2, "failed to heartbeat to") // one for each server
	count(1, "failed to appendEntries to")
	count(1, "failed to contact")

	log.Error("failed to heartbeat to", "peer", "10.0.0.3:4647", "error", errors.New("dial tcp 10.0.0.3:4647: i/o timeout")) // another cause
	count(3, "failed to heartbeat to")

	now = now.Add(5 * time.Minute)
	down()
	count(4, "failed to heartbeat to")
	count(3, "lines_omitted=99")
	down()
	if n := forget("c", "10.0.0.3:4647"); n != 3 {
		t.Errorf("%d lines were left out", n)
	}
	down() // the next outage
	count(5, "failed to heartbeat to")

	for range 10 {
		log.Info("entering candidate state", "term", 3)
		log.Info("entering leader state", "term", 3)
		log.Warn("Election timeout reached, restarting election")
	}
	count(1, "entering candidate state")
	count(10, "entering leader state")
	count(1, "Election timeout reached")
	forget() // there is a leader
	log.Warn("Election timeout reached, restarting election")
	count(2, "Election timeout reached")
}

func TestThatConnectionsBreakAtAStopIsNoError(t *testing.T) {
	var out bytes.Buffer
	log, _ := consensus.NewRepeats(hclog.New(&hclog.LoggerOptions{Output: &out}), time.Now)
	consensus.Ends(log)
	log.Error("failed to decode incoming command", "error", errors.New("use of closed network connection"))
	log.Warn("failed to contact", "server-id", "c")
	if out.Len() > 0 {
		t.Errorf("logged\n%s", out.String())
	}
}
