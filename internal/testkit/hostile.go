// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"os"
	"strconv"
	"testing"
)

// HostileRounds returns the number of rounds of a test with faults:
// DROVER_HOSTILE_ROUNDS, which `make hostile` sets, or else few.
func HostileRounds(t testing.TB, few int) int {
	t.Helper()
	text := os.Getenv("DROVER_HOSTILE_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DROVER_HOSTILE_ROUNDS=%q is not a number of rounds", text)
	}
	return n
}
