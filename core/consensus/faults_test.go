// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// failing is a store on a disk that fails.
type failing struct {
	*raft.InmemStore
	err error
}

func (f failing) GetLog(uint64, *raft.Log) error { return f.err }
func (f failing) StoreLogs([]*raft.Log) error    { return f.err }
func (f failing) Set(_, _ []byte) error          { return f.err }
func (f failing) SetUint64([]byte, uint64) error { return f.err }

func TestADiskThatFailsStopsTheServerWithAWordInsteadOfAPanic(t *testing.T) {
	told, release := make(chan error, 10), make(chan struct{})
	broken := failing{raft.NewInmemStore(), fmt.Errorf("sync: %w", syscall.EIO)}
	s, run := consensus.NewFaults(broken, broken, func(err error) { told <- err }, release)
	acts := map[string]func() error{
		"read":  func() error { return s.GetLog(1, &raft.Log{}) },
		"write": func() error { return s.StoreLog(&raft.Log{Index: 1}) },
		"vote":  func() error { return s.Set([]byte("k"), nil) },
		"term":  func() error { return s.SetUint64([]byte("k"), 1) },
	}
	for what, act := range acts {
		if err := act(); !errors.Is(err, syscall.EIO) || len(told) > 0 {
			t.Errorf("%s before the start: %v, told %d", what, err, len(told))
		}
	}
	run()
	returned := make(chan error, len(acts))
	for what, act := range acts {
		go func() { returned <- act() }()
		if err := <-told; !errdefs.IsInternal(err) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: told %v", what, err)
		}
	}
	if len(returned) > 0 {
		t.Error("raft is given an error, which ends the process with a panic")
	}
	close(release)
	for range acts {
		<-returned
	}
}

func TestWhatIsMissingAndAFullDiskAreNoFaults(t *testing.T) {
	for _, err := range []error{raft.ErrLogNotFound, syscall.ENOSPC, errdefs.ResourceExhaustedf("full")} {
		store := failing{raft.NewInmemStore(), err}
		s, run := consensus.NewFaults(store, store, func(err error) { t.Errorf("told %v", err) }, nil)
		run()
		if errors.Is(err, raft.ErrLogNotFound) {
			if got := s.GetLog(1, &raft.Log{}); !errors.Is(got, err) {
				t.Errorf("read: %v", got)
			}
		} else if got := s.StoreLogs(nil); !errors.Is(got, err) {
			t.Errorf("write: %v", got)
		}
	}
}

// Badger ends the process if there is no room for a page of its memory map, so a server
// neither appends nor votes then. It can wait for entries, but not without its vote.
func TestAServerWithoutRoomRefusesEntriesAndStopsBeforeItVotes(t *testing.T) {
	told, release := make(chan error, 1), make(chan struct{})
	free := uint64(128 << 20)
	mem := raft.NewInmemStore()
	s := consensus.NewFull(mem, mem, func(err error) { told <- err }, release, 128<<20, func() uint64 { return free })
	free = 90 << 20 // below the reserve, but others decide
	if err := s.StoreLog(&raft.Log{Index: 1}); err != nil {
		t.Error(err)
	}
	free = 70 << 20 // as little as a server does not start with
	if err := s.StoreLog(&raft.Log{Index: 2}); !errdefs.IsResourceExhausted(err) {
		t.Errorf("an entry was stored: %v", err)
	}
	if err := s.SetUint64([]byte("term"), 2); err != nil {
		t.Error(err)
	}
	free = 3 << 20
	voted := make(chan error, 1)
	go func() { voted <- s.Set([]byte("vote"), []byte("b")) }()
	if err := <-told; !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "start it again when there is") {
		t.Errorf("told %v", err)
	}
	if _, err := mem.Get([]byte("vote")); err == nil {
		t.Error("it has voted")
	}
	if last, err := mem.LastIndex(); err != nil || last != 1 {
		t.Errorf("last entry %d, %v", last, err)
	}
	close(release)
	<-voted
}
