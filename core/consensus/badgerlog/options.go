// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/go-hclog"
)

// Profile chooses how much memory the store may take for its write buffer.
type Profile int

const (
	// ProfileServer is for a server of a cluster: a memtable of 64 MiB, so
	// that rotations, which stall a write for some milliseconds, are rare.
	ProfileServer Profile = iota
	// ProfileDev is for an agent that shares a laptop with everything else:
	// the memtable counts as live heap, so a small one keeps the garbage
	// collector's target low.
	ProfileDev
)

const (
	mib = 1 << 20

	// largestPiece is what one key may hold. An entry above it is cut into
	// several keys, because badger refuses a transaction above 15 % of the
	// memtable and moves a value of 1 MiB or more to its value log, whose sync
	// errors it only logs.
	largestPiece = 256 << 10
)

// badgerOptions are the settings measured in the spikes: no compression, no
// caches, no metrics, no conflict detection, one version of each key, every
// commit synced, every value in the LSM path.
func badgerOptions(dir string, profile Profile, logger hclog.Logger) badger.Options {
	opts := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithCompression(options.None).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithMetricsEnabled(false).
		WithNumGoroutines(1).
		WithNumCompactors(2).
		WithNumMemtables(2).
		WithValueThreshold(mib).
		WithCompactL0OnClose(false).
		WithLogger(badgerLogger{logger})
	if profile == ProfileDev {
		return opts.
			WithMemTableSize(8 * mib).
			WithValueLogFileSize(16 * mib).
			WithBaseTableSize(2 * mib)
	}
	return opts.
		WithMemTableSize(64 * mib).
		WithValueLogFileSize(64 * mib)
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
