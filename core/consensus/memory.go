// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Memory is a log with its snapshots in memory that outlives a Node: the disk of a
// simulated server.
type Memory struct {
	log       *raft.InmemStore
	snapshots *memorySnapshots
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{log: raft.NewInmemStore(), snapshots: &memorySnapshots{}}
}

func (m *Memory) stores() stores {
	return stores{log: m.log, stable: m.log, snapshots: m.snapshots}
}

// Clone returns a copy of the current contents; no write is in progress meanwhile. A server
// that starts with the copy behaves as after a crash at this moment: the copy lacks
// everything that its former Node writes later.
func (m *Memory) Clone() (*Memory, error) {
	out := &Memory{log: raft.NewInmemStore(), snapshots: m.snapshots.clone()}
	if err := errors.Join(m.cloneLog(out), m.cloneVotes(out)); err != nil {
		return nil, fmt.Errorf("copy a log in memory: %w", err)
	}
	return out, nil
}

func (m *Memory) cloneLog(out *Memory) error {
	first, err := m.log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := m.log.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	for index := first; index <= last; index++ {
		var entry raft.Log
		err := m.log.GetLog(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue // a snapshot of the leader has it
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if err := out.log.StoreLog(&entry); err != nil {
			return err
		}
	}
	return nil
}

// cloneVotes copies raft's stable values (term and vote).
func (m *Memory) cloneVotes(out *Memory) error {
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		if n, err := m.log.GetUint64([]byte(key)); err == nil {
			if err := out.log.SetUint64([]byte(key), n); err != nil {
				return err
			}
		}
	}
	const candidate = "LastVoteCand"
	if v, err := m.log.Get([]byte(candidate)); err == nil {
		return out.log.Set([]byte(candidate), v)
	}
	return nil // raft's store in memory fails only for a missing key
}
