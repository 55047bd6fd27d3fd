// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"hash/crc32"
	"runtime"
	"slices"
	"time"
)

// A daemon that has rotated the log file of a container may take the new file, which is
// shorter than the old one was, for a truncated one. It then sends those who follow the
// container once more what it has sent of the new file: a few lines of a busy task, or
// thousands.

// repeats recognises messages that a stream sends once more. Their time alone does not tell
// them: the clock may be set back, and messages may have the same time.
type repeats struct {
	times []int64 // of the last messages, each once; a ring once it is full
	next  int     // where the next time goes in a full ring
	// The messages with the newest time: the checksums of their texts, and whether the last
	// one ends a line.
	sums  []uint32
	ended bool
}

// maxTimes is the size of the ring: 8 KiB per output of a busy task.
const maxTimes = 1024

// note remembers a message that was copied. sum is the checksum of its text.
func (r *repeats) note(m message, sum uint32) {
	r.ended = bytes.HasSuffix(m.text, newline)
	if n := len(r.times); n > 0 && r.times[(r.next+n-1)%n] == m.time {
		r.sums = append(r.sums, sum)
		return
	}
	r.sums = append(r.sums[:0], sum)
	if len(r.times) < maxTimes {
		r.times = append(r.times, m.time)
		return
	}
	r.times[r.next] = m.time
	r.next = (r.next + 1) % maxTimes
}

// began reports whether a message that is older than the newest one, from newest, was sent
// before, and not written after the clock was set back. Of a message from before all that are
// remembered, the clock itself says that it was not.
func (r *repeats) began(at, newest int64) bool {
	if slices.Contains(r.times, at) {
		return true
	}
	return len(r.times) == maxTimes && at < slices.Min(r.times) && time.Now().UnixNano() >= newest
}

// again reports whether a message with the newest time was sent before: its line was complete.
// Parts of a long line all have one time and may be equal, so a part that comes again within
// its line counts as new. So does each line where clocks are coarse.
func (r *repeats) again(m message) bool {
	return runtime.GOOS != "windows" && r.ended && slices.Contains(r.sums, crc32.ChecksumIEEE(m.text))
}
