// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"testing"

	"github.com/hashicorp/raft"
)

func TestTheEntryAtWhichASnapshotEndsStaysInTheLogThatIsCut(t *testing.T) {
	for _, c := range []struct {
		what                 string
		low, high, from, end uint64
	}{
		{"the front", 1, 15, 15, 21},
		{"one entry", 1, 1, 1, 21},
		{"all", 1, 21, 0, 0},
		{"the end", 17, 21, 1, 16},
	} {
		log := raft.NewInmemStore()
		for i := uint64(1); i <= 21; i++ {
			if err := log.StoreLog(&raft.Log{Index: i, Term: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if err := (joint{log}).DeleteRange(c.low, c.high); err != nil {
			t.Fatal(err)
		}
		from, err := log.FirstIndex()
		end, err2 := log.LastIndex()
		if err != nil || err2 != nil || from != c.from || end != c.end {
			t.Errorf("%s, %d to %d, was removed: the log has %d to %d (%v, %v), want %d to %d", c.what, c.low, c.high, from, end, err, err2, c.from, c.end)
		}
	}
}
