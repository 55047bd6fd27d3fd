// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pacer

import "testing"

// The write buffers do not count as live data, and there is always a minimum of room
// for garbage.
func TestGarbageIsBoundedByWhatIsReallyLive(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name          string
		live, buffers uint64
		percent       int
	}{
		{"at the start, before a collection", 0, 93 * mib, 100},
		{"before the stores are open", 20 * mib, 93 * mib, 100},
		{"a small agent has room for 4 MiB", 100 * mib, 97 * mib, 4},
		{"a large one for as much as is live", 1100 * mib, 100 * mib, 90},
		{"a node without a server", 30 * mib, 10 * mib, 66},
	} {
		if got := gcPercent(c.live, c.buffers, false); got != c.percent {
			t.Errorf("%s: %d %% of %d MiB, want %d %%", c.name, got, c.live/mib, c.percent)
		}
	}
}

func TestAStartWithMuchToReplayCollectsMoreOften(t *testing.T) {
	const buffers = 83 << 20
	if got := gcPercent(buffers+(20<<20), buffers, true); got != gcPercent(buffers+(20<<20), buffers, false) {
		t.Errorf("a small start lets %d %% come together", got)
	}
	const used = 100 << 20
	if got := gcPercent(buffers+used, buffers, true) * (buffers + used) / 100; got > used*startPercent/100 || got < used*(startPercent-2)/100 {
		t.Errorf("a large start lets %d MiB come together beside %d", got>>20, used>>20)
	}
}
