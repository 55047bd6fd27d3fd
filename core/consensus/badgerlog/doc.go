// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package badgerlog stores a server's raft log and raft's stable values (term, vote)
// on badger. It owns the layout of the keys and the settings of the database. It does
// not interpret entries, and owns neither snapshots (raft's file store keeps them) nor
// membership. Only core/consensus may import it.
//
// Guarantees to raft:
//
//   - StoreLogs and the stable setters return after the write is synced to disk.
//     A batch that is larger than one badger transaction is written as several
//     in order, so that a crash leaves a prefix of it.
//   - Deleting from the front costs one small write. The disk space is freed in
//     whole segments of 4,096 entries, without tombstones, which badger would keep
//     beside the data until a compaction of the bottom level.
//   - Deleting everything starts a new epoch: keys of older epochs are never
//     read again and are dropped, even after a crash halfway.
package badgerlog
