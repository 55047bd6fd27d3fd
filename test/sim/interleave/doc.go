// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package interleave checks the rules of allocs whose nodes vanish and come back as one
// property: random interleavings of beats, reports, evaluations, plans, partitions,
// restarts, clock jumps and changes of jobs run on the pure code of servers, and every
// rule holds after every step. A failure is shrunk to the fewest steps that show it.
package interleave
