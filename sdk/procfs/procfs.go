// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package procfs reads what Linux says of processes under /proc: which there are, and the
// state, parent, use and start of each. It does not measure trees of processes or signal
// them. On other systems it finds no process. Everybody may import it.
package procfs

// TicksPerSecond is the unit of the times of a Process, which is 100 on every architecture
// that Go runs on.
const TicksPerSecond = 100

// Process is what Linux says of one process.
type Process struct {
	PID, Parent, Group, Session int
	// Zombie reports whether it has ended, and its parent has not asked for its exit.
	Zombie bool
	// Exit is the wait status of a zombie.
	Exit uint64
	// Start is when it was started, in ticks since the boot of the machine. A process that
	// has the same PID and the same start is the same process.
	Start uint64
	// User and System are the processor time that it has used, in ticks. Those with
	// children include its children that have ended and were waited for.
	User, System                         uint64
	UserWithChildren, SystemWithChildren uint64
	// Resident is the memory that it uses, in pages.
	Resident uint64
}
