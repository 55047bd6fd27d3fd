// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"

	"github.com/tidwall/btree"
)

// uuidEntry maps a UUID to a number in 20 bytes without pointers, so that the garbage
// collector does not scan it.
type uuidEntry struct {
	a, b, c, d uint32
	num        uint32
}

func uuidLess(x, y uuidEntry) bool {
	if x.a != y.a {
		return x.a < y.a
	}
	if x.b != y.b {
		return x.b < y.b
	}
	if x.c != y.c {
		return x.c < y.c
	}
	return x.d < y.d
}

// nameEntry maps any other string to a number.
type nameEntry struct {
	name string
	num  uint32
}

func nameLess(x, y nameEntry) bool { return x.name < y.name }

// index is an ordered copy-on-write map of strings to numbers. UUIDs are stored as 16
// bytes, other keys (job names, ids in tests) as strings.
type index struct {
	uuids *btree.BTreeG[uuidEntry]
	names *btree.BTreeG[nameEntry]
}

var treeOptions = btree.Options{NoLocks: true}

func newIndex() index {
	return index{
		uuids: btree.NewBTreeGOptions(uuidLess, treeOptions),
		names: btree.NewBTreeGOptions(nameLess, treeOptions),
	}
}

func (x *index) freeze() index { return index{uuids: x.uuids.Copy(), names: x.names.Copy()} }

func (x *index) len() int { return x.uuids.Len() + x.names.Len() }

func (x *index) get(key string) (uint32, bool) {
	if u, ok := parseUUID(key); ok {
		e, found := x.uuids.Get(u)
		return e.num, found
	}
	e, found := x.names.Get(nameEntry{name: key})
	return e.num, found
}

// getHint is get for the writer. It stores the path in hint for a following setHint of
// the same key.
func (x *index) getHint(key string, hint *btree.PathHint) (uint32, bool) {
	if u, ok := parseUUID(key); ok {
		e, found := x.uuids.GetHint(u, hint)
		return e.num, found
	}
	return x.get(key)
}

// setHint is set with the hint of a preceding getHint.
func (x *index) setHint(key string, num uint32, hint *btree.PathHint) {
	if u, ok := parseUUID(key); ok {
		u.num = num
		x.uuids.SetHint(u, hint)
		return
	}
	x.set(key, num)
}

func (x *index) set(key string, num uint32) {
	if u, ok := parseUUID(key); ok {
		u.num = num
		x.uuids.Set(u)
		return
	}
	x.names.Set(nameEntry{name: key, num: num})
}

func (x *index) delete(key string) {
	if u, ok := parseUUID(key); ok {
		x.uuids.Delete(u)
		return
	}
	x.names.Delete(nameEntry{name: key})
}

// ascend yields the numbers of all keys >= from, in the order of the keys. key returns
// the key of a number; it is called only if the index contains both UUIDs and other
// keys.
func (x *index) ascend(from string, key func(uint32) string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		names := x.names.Iter()
		defer names.Release()
		more := names.Seek(nameEntry{name: from})
		stopped := false
		x.uuids.Ascend(lowerUUID(from), func(u uuidEntry) bool {
			for more && names.Item().name < key(u.num) {
				if stopped = !yield(names.Item().num); stopped {
					return false
				}
				more = names.Next()
			}
			stopped = !yield(u.num)
			return !stopped
		})
		for more && !stopped {
			stopped = !yield(names.Item().num)
			more = names.Next()
		}
	}
}

// own returns how many of the first bytes of a UUID no other UUID shares; 0 if the index
// does not contain it.
func (x *index) own(key string) (n int) {
	u, ok := parseUUID(key)
	if !ok {
		return 0
	}
	next := func(e uuidEntry) bool {
		if e.a == u.a && e.b == u.b && e.c == u.c && e.d == u.d {
			n = max(n, 1)
			return true
		}
		n = max(n, sharedBytes(u, e)+1)
		return false
	}
	if _, found := x.uuids.Get(u); found {
		x.uuids.Ascend(u, next)
		x.uuids.Descend(u, next)
	}
	return n
}

// sharedBytes returns the number of first bytes that two different UUIDs have in common.
func sharedBytes(x, y uuidEntry) (n int) {
	for _, d := range [...]uint32{x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d} {
		if d != 0 {
			return n + bits.LeadingZeros32(d)/8
		}
		n += 4
	}
	return n
}

// beginning yields the numbers of the UUIDs that begin with some bytes.
func (x *index) beginning(first string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		var b [16]byte
		copy(b[:], first)
		word := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
		x.uuids.Ascend(uuidEntry{a: word(0), b: word(4), c: word(8), d: word(12)}, func(u uuidEntry) bool {
			var is [16]byte
			for i, w := range [...]uint32{u.a, u.b, u.c, u.d} {
				binary.BigEndian.PutUint32(is[4*i:], w)
			}
			return string(is[:min(len(first), 16)]) == first && yield(u.num)
		})
	}
}

// uuidDash reports whether a UUID has a dash at position i.
func uuidDash(i int) bool { return i == 8 || i == 13 || i == 18 || i == 23 }

// hexDigits maps each lower-case hexadecimal digit to its value, and all other bytes
// to 0xff.
var hexDigits = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

// parseUUID accepts only the canonical form: 36 characters, lower case.
func parseUUID(s string) (uuidEntry, bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return uuidEntry{}, false
	}
	var bad byte
	part := func(v uint32, digits string) uint32 {
		for i := range len(digits) {
			d := hexDigits[digits[i]]
			bad |= d
			v = v<<4 | uint32(d&15)
		}
		return v
	}
	u := uuidEntry{
		a: part(0, s[:8]),
		b: part(part(0, s[9:13]), s[14:18]),
		c: part(part(0, s[19:23]), s[24:28]),
		d: part(0, s[28:]),
	}
	return u, bad < 16
}

// lowerUUID returns the smallest UUID whose text is >= s.
func lowerUUID(s string) uuidEntry {
	if u, ok := parseUUID(s); ok {
		return u
	}
	const low, high = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	text := []byte(low)
	for i := 0; i < len(s) && i < len(text); i++ {
		c := s[i]
		if uuidDash(i) {
			if c < '-' {
				break // every dash is greater: the rest is zeros
			}
			if c > '-' {
				return afterUUID(text[:i])
			}
			continue
		}
		switch {
		case c < '0':
			u, _ := parseUUID(string(text))
			return u
		case c > '9' && c < 'a':
			text[i] = 'a'
			u, _ := parseUUID(string(text))
			return u
		case c > 'f':
			return afterUUID(text[:i])
		}
		text[i] = c
	}
	u, _ := parseUUID(string(text))
	if len(s) > 36 && string(text) == s[:36] {
		return afterUUID(text)
	}
	return u
}

// afterUUID returns the smallest UUID greater than all that begin with prefix.
func afterUUID(prefix []byte) uuidEntry {
	const digits = "0123456789abcdef"
	text := []byte("00000000-0000-0000-0000-000000000000")
	copy(text, prefix)
	for i := len(prefix) - 1; i >= 0; i-- {
		if uuidDash(i) {
			continue
		}
		if text[i] != 'f' {
			for d := range digits {
				if digits[d] == text[i] {
					text[i] = digits[d+1]
					break
				}
			}
			u, _ := parseUUID(string(text))
			return u
		}
		text[i] = '0'
	}
	return uuidEntry{a: math.MaxUint32, b: math.MaxUint32, c: math.MaxUint32, d: math.MaxUint32}
}

// postings is a secondary index that maps keys to rows. Keys are numbered, and each
// pair (number, handle) is one pointer-free word in an ordered copy-on-write set, so
// that a delete or a change of the key costs as little as an insert.
type postings struct {
	keys  index
	pairs *btree.BTreeG[uint64]
	nums  numbers

	// The last key that the writer used, because bulk writes repeat it.
	lastKey string
	lastNum uint32
	hint    btree.PathHint
}

func newPostings() postings {
	return postings{
		keys:  newIndex(),
		pairs: btree.NewBTreeGOptions(func(a, b uint64) bool { return a < b }, treeOptions),
	}
}

func (p *postings) freeze() postings {
	return postings{keys: p.keys.freeze(), pairs: p.pairs.Copy()}
}

func (p *postings) add(key string, h uint32) {
	num := p.lastNum
	if key != p.lastKey || key == "" {
		var ok bool
		if num, ok = p.keys.get(key); !ok {
			num = p.nums.take()
			p.keys.set(key, num)
		}
		p.lastKey, p.lastNum = key, num
	}
	p.pairs.SetHint(uint64(num)<<32|uint64(h), &p.hint)
}

func (p *postings) remove(key string, h uint32) {
	num, ok := p.keys.get(key)
	if !ok {
		return
	}
	p.pairs.Delete(uint64(num)<<32 | uint64(h))
	empty := true
	p.pairs.Ascend(uint64(num)<<32, func(pair uint64) bool {
		empty = uint32(pair>>32) != num
		return false
	})
	if empty {
		p.keys.delete(key)
		p.nums.give(num)
		if p.lastKey == key {
			p.lastKey = ""
		}
	}
}

// scan yields the handles of the rows that have the key.
func (p *postings) scan(key string, yield func(uint32) bool) {
	num, ok := p.keys.get(key)
	if !ok {
		return
	}
	p.pairs.Ascend(uint64(num)<<32, func(pair uint64) bool {
		return uint32(pair>>32) == num && yield(uint32(pair))
	})
}
