// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	enchex "encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type testRow struct {
	id, color, owner string
	value            int
}

var testSchema = &schema[testRow]{
	id: func(r *testRow) string { return r.id },
	secondaries: []secondary[testRow]{
		{name: "color", key: func(r *testRow) string { return r.color }},
		{name: "owner", key: func(r *testRow) string { return r.owner }},
	},
}

// testIDs mixes UUIDs with ids that are none, some of which sort among them.
func testIDs(rng *rand.Rand, n int) []string {
	var ids []string
	for i := range n {
		switch i % 4 {
		case 0:
			ids = append(ids, fmt.Sprintf("node-%d", i))
		case 1:
			ids = append(ids, fmt.Sprintf("%x", rng.Uint32()))
		default:
			ids = append(ids, testUUID(rng))
		}
	}
	return ids
}

func testUUID(rng *rand.Rand) string {
	a, b := rng.Uint64(), rng.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

// frozenModel is a published table and what it must hold.
type frozenModel struct {
	table *table[testRow]
	rows  map[string]testRow
}

func (f frozenModel) check(t *testing.T, from string) {
	t.Helper()
	if f.table.len() != len(f.rows) {
		t.Fatalf("the table has %d rows, want %d", f.table.len(), len(f.rows))
	}
	var want []string
	for _, id := range slices.Sorted(maps.Keys(f.rows)) {
		if id >= from {
			want = append(want, id)
		}
	}
	var got []string
	for r := range f.table.all(from) {
		got = append(got, r.id)
		if *r != f.rows[r.id] {
			t.Fatalf("row %q is %v, want %v", r.id, *r, f.rows[r.id])
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("rows from %q: %q\nwant %q", from, got, want)
	}
	for sec, key := range []func(testRow) string{func(r testRow) string { return r.color }, func(r testRow) string { return r.owner }} {
		byKey := map[string][]string{}
		for id, r := range f.rows {
			if k := key(r); k != "" {
				byKey[k] = append(byKey[k], id)
			}
		}
		if n := f.table.by[sec].keys.len(); n != len(byKey) {
			t.Fatalf("index %d has %d keys, want %d: keys without rows must go", sec, n, len(byKey))
		}
		for k, ids := range byKey {
			var got []string
			for _, r := range f.table.list(sec, k) {
				got = append(got, r.id)
			}
			slices.Sort(got)
			slices.Sort(ids)
			if !slices.Equal(got, ids) {
				t.Fatalf("index %d, key %q: %q, want %q", sec, k, got, ids)
			}
		}
	}
}

func TestTableBehavesAsAMapAndSnapshotsNeverChange(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			ids := testIDs(rng, 400)
			colors := []string{"", "red", "green", testUUID(rng), testUUID(rng)}
			tab, rows := newTable(testSchema), map[string]testRow{}
			var published []frozenModel
			for range 30 {
				for range 1 + rng.IntN(100) {
					id := ids[rng.IntN(len(ids))]
					if rng.IntN(3) == 0 {
						old := tab.delete(id)
						if want, ok := rows[id]; ok != (old != nil) || ok && *old != want {
							t.Fatalf("delete %q returned %v, want %v", id, old, want)
						}
						delete(rows, id)
						continue
					}
					r := testRow{id: id, color: colors[rng.IntN(len(colors))], owner: ids[rng.IntN(20)], value: rng.Int()}
					tab.put(&r)
					rows[id] = r
				}
				if rng.IntN(4) == 0 {
					// A rollback: what was written since the last freeze is lost.
					if len(published) > 0 {
						last := published[len(published)-1]
						tab, rows = last.table.rebuild(), maps.Clone(last.rows)
					}
					continue
				}
				published = append(published, frozenModel{tab.freeze(), maps.Clone(rows)})
			}
			for _, p := range published {
				p.check(t, "")
				p.check(t, ids[rng.IntN(len(ids))])
			}
		})
	}
}

func TestHandlesOfDeletedRowsAreUsedAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tab := newTable(testSchema)
	for range 100 {
		var ids []string
		for range 50 {
			r := &testRow{id: testUUID(rng), owner: testUUID(rng)}
			ids = append(ids, r.id)
			tab.put(r)
		}
		tab.freeze()
		for _, id := range ids {
			tab.delete(id)
		}
		tab.freeze()
	}
	if tab.free.next > 50 || tab.by[1].nums.next > 50 {
		t.Fatalf("50 rows at a time took %d handles and %d key numbers", tab.free.next, tab.by[1].nums.next)
	}
}

func TestLowerUUIDIsTheSmallestUUIDNotBelowAString(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const alphabet = "-/0189:@afgz~"
	for range 20000 {
		uuid := testUUID(rng)
		s := uuid[:rng.IntN(37)]
		for range rng.IntN(3) {
			s += string(alphabet[rng.IntN(len(alphabet))])
		}
		u, _ := parseUUID(uuid)
		low := lowerUUID(s)
		if above, notBelow := uuid >= s, !uuidLess(u, low); above != notBelow && low != (uuidEntry{a: 1<<32 - 1, b: 1<<32 - 1, c: 1<<32 - 1, d: 1<<32 - 1}) {
			t.Fatalf("uuid %q >= %q is %v, by its bound %v", uuid, s, above, notBelow)
		}
	}
}

func TestTheBeginningOfAnIDIsAsShortAsNoOtherSharesIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	hex := func(id string) string { return strings.ReplaceAll(id, "-", "") }
	x, ids := newIndex(), []string(nil)
	for i := range 500 {
		id := testUUID(rng)
		if i > 0 && i%3 == 0 { // shares its beginning with another
			n := 1 + rng.IntN(35)
			id = ids[rng.IntN(i)][:n] + id[n:]
		}
		if _, again := x.get(id); again {
			id = testUUID(rng)
		}
		ids = append(ids, id)
		x.set(id, uint32(i))
	}
	x.set("no-uuid", 500)
	for i, id := range ids {
		want := 1
		for _, other := range ids {
			for n := 15; other != id && n >= want; n-- {
				if hex(other)[:2*n] == hex(id)[:2*n] {
					want = n + 1
				}
			}
		}
		if got := x.own(id); got != want {
			t.Fatalf("%s has %d bytes of its own, want %d", id, got, want)
		}
		whole, _ := enchex.DecodeString(hex(id))
		for n := 1; n <= 16; n++ {
			got := slices.Collect(x.beginning(string(whole[:n])))
			if n >= want != slices.Equal(got, []uint32{uint32(i)}) || !slices.Contains(got, uint32(i)) {
				t.Fatalf("%d bytes of %s are those of %v", n, id, got)
			}
		}
	}
	if x.own("no-uuid") != 0 || x.own(testUUID(rng)) != 0 {
		t.Error("an id that is no UUID, or is not there, has a beginning")
	}
}
