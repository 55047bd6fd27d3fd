// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import "github.com/drover-project/drover/core/durable"

// Profile selects the memory for the store's write buffer.
type Profile = durable.Profile

// The profiles: see core/durable.
const (
	ProfileServer = durable.ProfileServer
	ProfileDev    = durable.ProfileDev
)

// largestPiece is the maximum size of a value. A larger entry is split over several
// keys, because badger rejects transactions above 15 % of the memtable, and moves
// values of 1 MiB or more to its value log, whose sync errors it only logs.
const largestPiece = 256 << 10
