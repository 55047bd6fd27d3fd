// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryFlagOfTheReferencesAgentIsKnown(t *testing.T) {
	root := cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "..", "shared", "compat"))
	b, err := os.ReadFile(filepath.Join(root, "surface", "cli.txt"))
	if err != nil {
		t.Skipf("no surface of the reference: %v; set DROVER_COMPAT", err)
	}
	_, after, found := strings.Cut(string(b), "\nagent\n")
	if !found {
		t.Fatal("the surface has no agent command")
	}
	o := newOptions()
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		for _, f := range strings.Fields(line) {
			if name, isFlag := strings.CutPrefix(f, "-"); isFlag && o.flags.Lookup(name) == nil {
				t.Errorf("the reference's flag -%s of the agent is not known; act on it or refuse it with a reason", name)
			}
		}
	}
}
