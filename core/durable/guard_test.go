// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"math"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestADiskBelowItsReserveRefusesAndNamesTheCure(t *testing.T) {
	dir := t.TempDir()
	if err := durable.New(dir, 1).Check(); err != nil {
		t.Errorf("with room: %v", err)
	}
	err := durable.New(dir, math.MaxUint64).Check()
	if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("without room: %v", err)
	}
	var none *durable.Guard
	if err := none.Check(); err != nil {
		t.Errorf("a guard of nothing: %v", err)
	}
}
