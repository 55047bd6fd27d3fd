// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import "github.com/drover-project/drover/core/durable"

// Profile chooses how much memory the store may take for its write buffer.
type Profile = durable.Profile

// The profiles: see core/durable.
const (
	ProfileServer = durable.ProfileServer
	ProfileDev    = durable.ProfileDev
)

// largestPiece is what one key may hold. An entry above it is cut into several
// keys, because badger refuses a transaction above 15 % of the memtable and moves
// a value of 1 MiB or more to its value log, whose sync errors it only logs.
const largestPiece = 256 << 10
