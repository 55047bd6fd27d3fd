// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"errors"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/internal/testkit"
)

func TestAServerThatCannotReadAnEntryFailsAndSaysWhich(t *testing.T) {
	c := testkit.Start(t)
	index, _, err := c.Server.Raft().Propose(t.Context(), []byte{1, 255})
	var unread *fsm.UnreadableError
	if !errors.As(err, &unread) {
		t.Fatalf("the entry was taken at index %d: %v", index, err)
	}
	if got := <-c.Server.Failed(); got != error(unread) {
		t.Errorf("failed with %v", got)
	}
	if resp, body := c.Ask("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 1)}); resp.StatusCode < 500 {
		t.Errorf("a job is still taken: %s %s", resp.Status, body)
	}
}
