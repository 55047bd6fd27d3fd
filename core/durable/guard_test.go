// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
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

func TestAStoreIsOpenedWhileThereIsRoomForWhatItsMemtablesHold(t *testing.T) {
	dir := t.TempDir()
	guard := durable.New(dir, math.MaxUint64) // nothing is written
	if err := guard.CheckOpen(dir, durable.ProfileDev); err != nil {
		t.Errorf("to read what is there: %v", err)
	}
	for i := range 1 << 10 { // of 64 MiB each: more than there is
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.mem", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := guard.CheckOpen(dir, durable.ProfileServer); err != nil && !errdefs.IsResourceExhausted(err) {
		t.Errorf("without room: %v", err)
	}
}
