// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// Memory is a log with its snapshots in memory that outlives a Node: the disk of a
// simulated server.
type Memory struct {
	log       *raft.InmemStore
	snapshots *raft.InmemSnapshotStore
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{log: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
}

func (m *Memory) stores() stores {
	return stores{log: m.log, stable: m.log, snapshots: m.snapshots}
}

// Clone returns a copy of what is stored now. A server that starts with it has crashed at
// this moment: what its former Node writes later, the copy does not have.
func (m *Memory) Clone() (*Memory, error) {
	out := NewMemory()
	if err := errors.Join(m.cloneLog(out), m.cloneVotes(out), m.cloneSnapshot(out)); err != nil {
		return nil, fmt.Errorf("copy a log in memory: %w", err)
	}
	return out, nil
}

// cloneLog starts again if entries are deleted meanwhile.
func (m *Memory) cloneLog(out *Memory) error {
	for {
		out.log = raft.NewInmemStore()
		if err := m.cloneEntries(out); !errors.Is(err, raft.ErrLogNotFound) {
			return err
		}
	}
}

func (m *Memory) cloneEntries(out *Memory) error {
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
		if err := m.log.GetLog(index, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if err := out.log.StoreLog(&entry); err != nil {
			return err
		}
	}
	return nil
}

// cloneVotes copies what raft stores beside the log.
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
	return nil // raft's store in memory has no other error than that there is no such key
}

func (m *Memory) cloneSnapshot(out *Memory) error {
	list, err := m.snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	meta, r, err := m.snapshots.Open(list[0].ID)
	if err != nil {
		return err
	}
	_, names := raft.NewInmemTransport(memoryAddress) // only encodes the names of the members
	sink, err := out.snapshots.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, names)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	_, err = io.Copy(sink, r)
	return errors.Join(err, sink.Close(), r.Close())
}
