// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package durable owns what every badger of Drover has in common: how it is
// opened, and when its disk has room to write; and the writing of small files that
// survive a power cut. It does not own what is stored. The packages that hold a
// badger (core/consensus/badgerlog, core/agent/local) or such a file
// (core/auth/keyring, core/server) import it.
package durable

import (
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/go-hclog"
)

// Profile chooses how much memory a store may take for its write buffer.
type Profile int

const (
	// ProfileServer is for a server of a cluster: a memtable of 64 MiB, so
	// that rotations, which stall a write for some milliseconds, are rare.
	ProfileServer Profile = iota
	// ProfileDev is for a node, and for an agent that shares a laptop with
	// everything else.
	ProfileDev
)

const mib = 1 << 20

// memtable is the bytes that are written before they are sorted into a file.
func (p Profile) memtable() int64 {
	if p == ProfileDev {
		return 8 * mib
	}
	return 64 * mib
}

// Buffer is about how many bytes of live heap a store's write buffer is from the
// start, although it is touched only as it fills: badger adds room for one batch,
// of data and of index, each 15 % of the memtable.
func (p Profile) Buffer() int64 { return p.memtable() * 130 / 100 }

// Options are the settings measured in the spikes: no compression, no caches, no
// metrics, no conflict detection, one version of each key, every commit synced,
// every value below 1 MiB in the LSM path, whose sync errors are returned.
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
		WithValueThreshold(mib).
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

// badgerLogger passes badger's errors on. Its other lines narrate compactions
// and are of use to badger's authors only.
type badgerLogger struct{ to hclog.Logger }

func (l badgerLogger) Errorf(format string, args ...any) {
	l.to.Error("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (badgerLogger) Warningf(string, ...any) {}
func (badgerLogger) Infof(string, ...any)    {}
func (badgerLogger) Debugf(string, ...any)   {}
