// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ExtractArchive verifies an archive, writes its state to w and returns its metadata.
func ExtractArchive(r io.Reader, w io.Writer) (SnapshotInfo, error) { return readArchive(r, w) }

// LogEntry is one entry of a server's log.
type LogEntry struct {
	Index, Term uint64
	Type        string // "LogCommand" for commands
	Data        []byte
}

// LogInfo is a summary of a server's log.
type LogInfo struct {
	First, Last uint64 // indexes; both 0 for an empty log
	Term        uint64 // the newest term that the server knows
}

// Log is the log of a stopped server, for diagnosis.
type Log struct {
	dir   string
	store *badgerlog.Store
}

// OpenLog opens the log in the data directory of a server's consensus. The server must
// not be running.
func OpenLog(dir string) (*Log, error) {
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		return nil, errdefs.NotFoundf("%s holds no log of a server: %w", dir, err)
	}
	store, err := badgerlog.Open(badgerlog.Config{Dir: filepath.Join(dir, "log"), Profile: badgerlog.ProfileDev, Damaged: true})
	if err != nil {
		return nil, fmt.Errorf("open the log (an agent that uses it has to be stopped first): %w", err)
	}
	return &Log{dir, store}, nil
}

// Close closes the log.
func (l *Log) Close() error { return l.store.Close() }

// Info returns a summary of the log.
func (l *Log) Info() (info LogInfo, err error) {
	if info.First, err = l.store.FirstIndex(); err != nil {
		return info, err
	}
	if info.Last, err = l.store.LastIndex(); err != nil {
		return info, err
	}
	info.Term, err = l.store.GetUint64([]byte("CurrentTerm"))
	return info, err
}

// Entries calls each for every entry from index first to index last. There may be gaps
// after a restored snapshot.
func (l *Log) Entries(first, last uint64, each func(LogEntry) error) error {
	for i := first; i <= last && i > 0; i++ {
		var entry raft.Log
		if err := l.store.GetLog(i, &entry); errors.Is(err, raft.ErrLogNotFound) {
			continue
		} else if err != nil {
			return fmt.Errorf("read entry %d of the log: %w", i, err)
		}
		if err := each(LogEntry{Index: entry.Index, Term: entry.Term, Type: entry.Type.String(), Data: entry.Data}); err != nil {
			return err
		}
	}
	return nil
}

// Replay restores a state machine to the state after index last (0: the end of the
// log), from the newest snapshot before it and the entries after that. It returns the
// index that it reached. It stops with an error at an entry that the state machine
// cannot read.
func (l *Log) Replay(machine StateMachine, last uint64) (uint64, error) {
	info, err := l.Info()
	if err != nil {
		return 0, err
	}
	if last == 0 || last > info.Last {
		last = max(info.Last, last)
	}
	at, err := l.restoreNewest(machine, last)
	if err != nil {
		return 0, err
	}
	if at == 0 && info.First > 1 {
		return 0, errdefs.NotFoundf("what happened before index %d is gone, and no snapshot up to index %d holds it", info.First, last)
	}
	end := min(last, info.Last)
	err = l.Entries(max(at+1, info.First), end, func(e LogEntry) error {
		if e.Type == raft.LogCommand.String() {
			if err, ok := machine.ApplyBatch([]Entry{{Index: e.Index, Data: e.Data}})[0].(Fatal); ok {
				return err
			}
		}
		return nil
	})
	return max(at, end), err
}

// restoreNewest restores the newest snapshot up to an index, if there is one.
func (l *Log) restoreNewest(machine StateMachine, last uint64) (uint64, error) {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(l.dir, keepSnapshots, hclog.NewNullLogger())
	if err != nil {
		return 0, fmt.Errorf("open the snapshots: %w", err)
	}
	list, err := snapshots.List() // newest first
	if err != nil {
		return 0, fmt.Errorf("list the snapshots: %w", err)
	}
	for _, meta := range list {
		if last > 0 && meta.Index > last {
			continue
		}
		_, r, err := snapshots.Open(meta.ID)
		if err != nil {
			return 0, fmt.Errorf("open the snapshot %s: %w", meta.ID, err)
		}
		if err := (adapter{machine: machine}).Restore(r); err != nil {
			return 0, err
		}
		return meta.Index, nil
	}
	return 0, nil
}

// Members returns the servers in the raft configuration in the data directory of a
// stopped server's consensus. NotFound: there is no log.
func Members(dir string) ([]Server, error) {
	l, err := OpenLog(dir)
	if err != nil {
		return nil, err
	}
	members, err := l.members()
	return members, errors.Join(err, l.Close())
}

func (l *Log) members() ([]Server, error) {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(l.dir, keepSnapshots, hclog.NewNullLogger())
	if err != nil {
		return nil, fmt.Errorf("open the snapshots: %w", err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID = "reader"
	conf.Logger = hclog.NewNullLogger()
	conf.NoSnapshotRestoreOnStart = true
	_, transport := raft.NewInmemTransport(memoryAddress)
	found, err := raft.GetConfiguration(conf, adapter{}, l.store, l.store, snapshots, transport)
	if err != nil {
		return nil, fmt.Errorf("read the members of the log: %w", err)
	}
	var out []Server
	for _, s := range found.Servers {
		out = append(out, Server{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return out, nil
}
