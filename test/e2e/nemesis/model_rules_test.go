// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// at is one operation of a history that is written by hand.
func at(call, ret int64, r request, a answer) porcupine.Operation {
	r.object = "x"
	if a.outcome == unknown {
		ret = math.MaxInt64
	}
	return porcupine.Operation{Input: r, Output: a, Call: call, Return: ret}
}

func TestTheCheckerRefusesWhatNoSingleObjectDoes(t *testing.T) {
	put := func(v string) request { return request{verb: write, value: v} }
	get := request{verb: read}
	cas := func(v string, index uint64) request { return request{verb: swap, value: v, index: index} }
	take := func(v string) request { return request{verb: acquire, value: v} }
	for name, c := range map[string]struct {
		history []porcupine.Operation
		right   bool
	}{
		"a read of what was written": {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, get, answer{done, "a", 5, ""})}, true},
		"a stale read":               {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, put("b"), answer{done, "", 6, ""}), at(5, 6, get, answer{done, "a", 5, ""})}, false},
		"a lost write":               {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, get, answer{missing, "", 0, ""})}, false},
		"a write that is applied twice": {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, put("b"), answer{done, "", 6, ""}), at(5, 6, get, answer{done, "b", 6, ""}),
			at(7, 8, get, answer{done, "a", 7, ""})}, false},
		"an index that goes backwards": {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 6, ""}), at(3, 4, put("b"), answer{done, "", 5, ""})}, false},
		"an answer with the index of a later write": {[]porcupine.Operation{at(1, 9, put("a"), answer{done, "", 6, ""}), at(2, 8, put("b"), answer{done, "", 6, ""}),
			at(10, 11, get, answer{done, "b", 6, ""})}, false},
		"a lost update":                                 {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, cas("b", 5), answer{done, "", 6, ""}), at(5, 6, cas("c", 5), answer{done, "", 7, ""})}, false},
		"a swap that is refused for nothing":            {[]porcupine.Operation{at(1, 2, put("a"), answer{done, "", 5, ""}), at(3, 4, cas("b", 5), answer{outcome: conflict})}, false},
		"a write without an answer that is seen":        {[]porcupine.Operation{at(1, 0, put("a"), answer{outcome: unknown}), at(3, 4, get, answer{done, "a", 5, ""})}, true},
		"a write without an answer that is never seen":  {[]porcupine.Operation{at(1, 0, put("a"), answer{outcome: unknown}), at(3, 4, get, answer{missing, "", 0, ""})}, true},
		"a write without an answer that is undone":      {[]porcupine.Operation{at(1, 0, put("a"), answer{outcome: unknown}), at(3, 4, get, answer{done, "a", 5, ""}), at(5, 6, get, answer{missing, "", 0, ""})}, false},
		"a write without an answer that is seen late":   {[]porcupine.Operation{at(1, 0, put("a"), answer{outcome: unknown}), at(3, 4, get, answer{missing, "", 0, ""}), at(50, 60, get, answer{done, "a", 5, ""})}, true},
		"a lock that two hold":                          {[]porcupine.Operation{at(1, 2, take("a"), answer{done, "", 5, "l1"}), at(3, 4, take("b"), answer{done, "", 6, "l2"})}, false},
		"a write past the lock of another":              {[]porcupine.Operation{at(1, 2, take("a"), answer{done, "", 5, "l1"}), at(3, 4, put("b"), answer{done, "", 6, ""})}, false},
		"a lock after a release":                        {[]porcupine.Operation{at(1, 2, take("a"), answer{done, "", 5, "l1"}), at(3, 4, request{verb: release, value: "c", lock: "l1"}, answer{done, "", 6, ""}), at(5, 6, take("b"), answer{done, "", 7, "l2"})}, true},
		"a lock that is refused though nobody holds it": {[]porcupine.Operation{at(3, 4, take("b"), answer{outcome: conflict})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := porcupine.CheckOperations(theModel, c.history); got != c.right {
				t.Errorf("linearizable: %t, want %t", got, c.right)
			}
		})
	}
}
