// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package badgerlog keeps a server's raft log and raft's small stable values
// (term, vote) on badger. It owns the layout of these keys and the settings of
// that database; it knows nothing of what an entry means, of snapshots (raft's
// own file store keeps them) or of membership. Only core/consensus may import
// it.
//
// What raft may rely on:
//
//   - StoreLogs and the stable setters return after the write is synced to disk.
//     A batch that is larger than one badger transaction is written as several
//     in order, so that a crash leaves a prefix of it.
//   - Deleting from the front costs one small write. What it deleted leaves the
//     disk in whole segments of 4,096 entries, not as tombstones, which badger
//     would keep beside the data for as long as nothing else makes it compact
//     the bottom level.
//   - Deleting everything starts a new epoch: keys of older epochs are never
//     read again and are dropped, also after a crash halfway.
package badgerlog
