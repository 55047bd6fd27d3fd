// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsAreProposedInOnePlace checks that no other package encodes a command for
// the log or declares the log's interface.
func TestCommandsAreProposedInOnePlace(t *testing.T) {
	pkgs, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		if !strings.HasPrefix(p.rel(), "core/") || p.rel() == "core/propose" || p.rel() == "core/fsm" || strings.HasPrefix(p.rel(), "core/consensus") {
			continue
		}
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{"fsm.Encode(", "\tPropose("} {
				if strings.Contains(string(src), own) {
					t.Errorf("%s/%s has %q: propose commands with core/propose", p.rel(), name, strings.TrimSpace(own))
				}
			}
		}
	}
}
