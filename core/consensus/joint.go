// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// joint is raft's log, which keeps the entry at which a snapshot ends when entries are
// removed from its front. Raft removes that entry too if more than TrailingLogs follow it.
// If those that follow are of a leader that has lost its lead, the next leader asks whether
// the log agrees with its own at that entry, raft looks for it in the log and not in the
// snapshot, and the server never gets an entry again until the leader's log is cut as well.
type joint struct{ raft.LogStore }

// DeleteRange implements raft.LogStore.
func (j joint) DeleteRange(low, high uint64) error {
	first, err := j.FirstIndex()
	if err != nil {
		return fmt.Errorf("find the first entry of the log: %w", err)
	}
	last, err := j.LastIndex()
	if err != nil {
		return fmt.Errorf("find the last entry of the log: %w", err)
	}
	if low <= first && high < last { // at the front, and not all
		high--
	}
	if high < low {
		return nil
	}
	return j.LogStore.DeleteRange(low, high)
}
