// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sometimesUUIDs returns keys that are UUIDs, nearly UUIDs, or names. Many of them share their
// first characters.
func sometimesUUIDs(r *rand.Rand, n int) []string {
	digit := func() byte { return "00000fffff19ae"[r.IntN(14)] }
	var last string
	keys := map[string]bool{}
	for len(keys) < n {
		b := []byte("00000000-0000-0000-0000-000000000000")
		for i := range b {
			switch {
			case uuidDash(i):
			case last != "" && i < 20 && r.IntN(12) > 0:
				b[i] = last[i]
			default:
				b[i] = digit()
			}
		}
		last = string(b)
		switch r.IntN(6) {
		case 0: // no UUID, though it has a UUID's length
			at := r.IntN(len(b))
			b[at] = "!,.-/:@AFGgz_"[r.IntN(13)]
		case 1:
			b = b[:r.IntN(len(b))]
		case 2:
			b = append(b, "-!f"[r.IntN(3)])
		}
		keys[string(b)] = true
	}
	out := make([]string, 0, n)
	for key := range keys {
		out = append(out, key)
	}
	return out
}

// TestAnIndexIsAnOrderedMapOfItsKeysWhateverTheyAre compares an index with a sorted list, from
// many places, also such as are no key, and to the end or not.
func TestAnIndexIsAnOrderedMapOfItsKeysWhateverTheyAre(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		keys := sometimesUUIDs(r, 200)
		slices.Sort(keys) // r decides about them alone
		others := sometimesUUIDs(r, 300)
		x, sorted := newIndex(), slices.Clone(keys)
		for i, key := range keys {
			x.set(key, uint32(i))
		}
		key := func(num uint32) string { return keys[num] }
		for i, k := range keys {
			if num, ok := x.get(k); !ok || num != uint32(i) {
				t.Fatalf("seed %d: %q is %d, %t", seed, k, num, ok)
			}
		}
		for i, from := range append(others, keys...) {
			at, found := slices.BinarySearch(sorted, from)
			if _, ok := x.get(from); ok != found {
				t.Fatalf("seed %d: that it has %q is said to be %t", seed, from, ok)
			}
			want := sorted[at:min(len(sorted), at+i%50)]
			got := []string{}
			if len(want) > 0 {
				for num := range x.ascend(from, key) {
					if got = append(got, keys[num]); len(got) == len(want) {
						break
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: from %q it has\n%q\nnot\n%q", seed, from, got, want)
			}
		}
		for i, k := range keys {
			if x.delete(k); x.len() != len(keys)-i-1 {
				t.Fatalf("seed %d: it has %d keys, not %d, without %q", seed, x.len(), len(keys)-i-1, k)
			}
		}
	}
}

func TestTheFirstBytesThatAUUIDSharesWithNoOtherAreItsOwn(t *testing.T) {
	hexOf := func(key string) string { return strings.ReplaceAll(key, "-", "") }
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		x, uuids := newIndex(), []string(nil)
		for i, key := range sometimesUUIDs(r, 100) {
			if x.set(key, uint32(i)); x.uuids.Len() > len(uuids) {
				uuids = append(uuids, key)
			}
		}
		for _, key := range uuids {
			want := 1
			for _, other := range uuids {
				for want < 16 && other != key && hexOf(other)[:2*want] == hexOf(key)[:2*want] {
					want++
				}
			}
			if got := x.own(key); got != want {
				t.Errorf("seed %d: %s has %d bytes of its own, not %d", seed, key, got, want)
			}
		}
		for _, other := range []string{"", "name", "01234567-89ab-cdef-0123-456789abcdef"} {
			if got := x.own(other); got != 0 {
				t.Errorf("%q, which it does not have, has %d bytes of its own", other, got)
			}
		}
	}
	x := newIndex()
	x.set("01234567-89ab-cdef-0123-456789abcdef", 1)
	if got := x.own("01234567-89ab-cdef-0123-456789abcdef"); got != 1 {
		t.Errorf("the only one has %d bytes of its own, not 1", got)
	}
}

// A key without rows gives its number back, and the next key gets it.
func TestPostingsFindTheRowsOfAKeyAndNoOther(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p, want := newPostings(), map[string]map[uint32]bool{}
	for range 20_000 {
		key, h := fmt.Sprint("k", r.IntN(20)), uint32(r.IntN(30))
		if r.IntN(20) == 0 {
			key = ""
		}
		if want[key] == nil {
			want[key] = map[uint32]bool{}
		}
		if r.IntN(2) == 0 {
			p.add(key, h)
			want[key][h] = true
		} else {
			p.remove(key, h)
			delete(want[key], h)
		}
		key = fmt.Sprint("k", r.IntN(20))
		n, last := 0, -1
		p.scan(key, func(h uint32) bool {
			if n++; !want[key][h] || int(h) <= last {
				t.Fatalf("%q has the row %d after %d", key, h, last)
			}
			last = int(h)
			return true
		})
		if n != len(want[key]) {
			t.Fatalf("%q has %d rows, not %d", key, n, len(want[key]))
		}
	}
	for key, rows := range want {
		for h := range rows {
			p.remove(key, h)
		}
	}
	if p.keys.len() != 0 || p.pairs.Len() != 0 {
		t.Errorf("%d keys and %d pairs are left", p.keys.len(), p.pairs.Len())
	}
}
