// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package durable owns what all badger databases of Drover have in common: their
// options, opening and verifying them, closing them while nobody uses them, and the check
// for free disk space. It also
// writes small files atomically. It does not own the stored data. The packages that
// have a database (core/consensus/badgerlog, core/agent/local) or such a file
// (core/auth/keyring, core/server) import it.
package durable

import (
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/go-hclog"
)

// Profile selects the memory for a store's write buffer.
type Profile int

const (
	// ProfileServer is for a server of a cluster: a memtable of 64 MiB, so that
	// memtable rotations, which delay a write by some milliseconds, are rare.
	ProfileServer Profile = iota
	// ProfileDev is for nodes and for development agents: a memtable of 1 MiB, because it
	// stays in memory at rest, once it has been full.
	ProfileDev
)

// LargestValue is the maximum size of a value in bytes. A larger one is split over several
// keys, because badger rejects transactions above 15 % of the memtable, and moves values
// above its threshold to its value log, whose sync errors it only logs.
const LargestValue = 64 << 10

const mib = 1 << 20

// memtable returns the size of the memtable in bytes.
func (p Profile) memtable() int64 {
	if p == ProfileDev {
		return mib
	}
	return 64 * mib
}

// Buffer returns the approximate size of a store's write buffer on the heap, in bytes.
// It is allocated at the start but touched only as it fills. Badger adds space for one
// batch, of data and of index, each 15 % of the memtable.
func (p Profile) Buffer() int64 { return p.memtable() * 130 / 100 }

// Options returns the measured best settings: no compression, no caches, no metrics,
// no conflict detection, one version of each key, every commit synced, and all values
// in the LSM tree, whose sync errors are returned.
func Options(dir string, profile Profile, logger hclog.Logger) badger.Options {
	opts := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithCompression(options.None).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithNumGoroutines(1).
		WithNumCompactors(2).
		WithNumMemtables(2).
		WithValueThreshold(2 * LargestValue).
		WithCompactL0OnClose(false).
		WithMemTableSize(profile.memtable()).
		WithLogger(badgerLogger{logger})
	if profile == ProfileDev {
		return opts.
			WithValueLogFileSize(16 * mib).
			WithBaseTableSize(2 * mib)
	}
	return opts.WithValueLogFileSize(64 * mib)
}

// badgerLogger passes on badger's errors. Its other messages describe compactions and
// are useful only to badger's authors.
type badgerLogger struct{ to hclog.Logger }

func (l badgerLogger) Errorf(format string, args ...any) {
	l.to.Error("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (badgerLogger) Warningf(string, ...any) {}
func (badgerLogger) Infof(string, ...any)    {}
func (badgerLogger) Debugf(string, ...any)   {}
