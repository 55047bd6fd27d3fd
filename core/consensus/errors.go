// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/sdk/errdefs"
)

// NotLeaderError means that this server is not the leader. Leader is the leader that
// it knows. Nothing was written, so the caller may send the request to the leader. Its
// class is Unavailable and its reason code propose.ReasonNotLeader.
type NotLeaderError struct {
	// Leader is the zero value while no leader is known.
	Leader Server
}

func (e *NotLeaderError) Error() string {
	if e.Leader.ID == "" {
		return "No cluster leader: an election is under way or a quorum of servers is down; retry, and check the servers if it stays"
	}
	return fmt.Sprintf("this server does not lead; send the request to the leader %s at %s", e.Leader.ID, e.Leader.Address)
}

// classify adds our error classes to raft's errors. what describes the failed
// operation.
func (n *Node) classify(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return errdefs.Canceledf("%s: the caller gave up; the outcome is unknown: %w", what, err)
	case errors.Is(err, context.DeadlineExceeded):
		return errdefs.DeadlineExceededf("%s: no answer in time; the outcome is unknown, read before you retry: %w", what, err)
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		leader, _ := n.Leader()
		if leader.ID == n.id {
			leader = Server{}
		}
		return errdefs.WithReason(errdefs.New(errdefs.Unavailable, fmt.Errorf("%s: %w", what, &NotLeaderError{Leader: leader})), propose.ReasonNotLeader)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return errdefs.Unavailablef("%s: this server lost its lead meanwhile, so the outcome is unknown; read before you retry: %w", what, err)
	case errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrTransportShutdown):
		return errdefs.Unavailablef("%s: this server is shutting down; ask another: %w", what, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return errdefs.Unavailablef("%s: the log is busy and the deadline passed before the command was queued; nothing was written, retry: %w", what, err)
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		return errdefs.FailedPreconditionf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
