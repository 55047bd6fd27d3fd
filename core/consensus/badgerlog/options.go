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
// keys.
const largestPiece = durable.LargestValue
