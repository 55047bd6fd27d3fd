// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStatusOfAStoreSaysNothingOfAnAgentThatItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "drover-1795903295680740125.snap"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := execute(t, nil, "operator", "snapshot", "status", "-path", dir)
	if !strings.Contains(got.out, "drover-1795903295680740125.snap") {
		t.Errorf("the store's snapshot is not listed: %+v", got)
	}
	if strings.Contains(got.out, "Failed") || strings.Contains(got.out, "Last Error") {
		t.Errorf("it tells what it does not know:\n%s", got.out)
	}
}
