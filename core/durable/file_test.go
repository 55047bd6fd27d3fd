// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/core/durable"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "id")
	for _, want := range []string{"a first, longer text", "short"} {
		if err := durable.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) != 0 {
		t.Errorf("%v is left behind", left)
	}
	if err := durable.WriteFile(filepath.Join(path, "none"), nil, 0o600); err == nil {
		t.Error("a file in a folder that does not exist is written")
	}
}
