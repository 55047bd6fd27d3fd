// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import "github.com/hashicorp/raft"

// NewFaults puts watched stores over others; who waits for a failed disk goes on when
// release is closed.
func NewFaults(log raft.LogStore, stable raft.StableStore, fatal func(error), release chan struct{}) (interface {
	raft.LogStore
	raft.StableStore
}, func()) {
	f := &faults{LogStore: log, stable: stable, fatal: fatal, forever: release}
	return f, func() { f.running.Store(true) }
}
