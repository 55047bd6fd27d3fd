// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Choose returns n of the instances of a service (all if there are fewer), the same ones for
// the same key as long as they exist. Clients with different keys are spread over all
// instances, and one that comes or goes affects only the choices that contain it
// (rendezvous hashing). It sorts list in place. The API and templates choose by it, so both
// give a key the same instances.
func Choose[R any](list []R, n int, key string, id func(R) string) []R {
	weigh := func(r R) uint64 {
		h := fnv.New64a()
		h.Write([]byte(id(r) + "\x00" + key))
		x := h.Sum64() // spread: close inputs have close sums
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	slices.SortFunc(list, func(a, b R) int {
		return cmp.Or(cmp.Compare(weigh(a), weigh(b)), cmp.Compare(id(a), id(b)))
	})
	return list[:min(len(list), n)]
}
