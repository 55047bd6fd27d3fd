// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"errors"
	"fmt"
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
