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

func TestFlagsOfDirectoriesReachTheNode(t *testing.T) {
	o := newOptions()
	if err := o.flags.Parse(strings.Fields("-dev -state-dir /s -alloc-dir /a -host-volumes-dir /v -host-volume-plugin-dir /p")); err != nil {
		t.Fatal(err)
	}
	cfg, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.Client; c.StateDir != "/s" || c.AllocDir != "/a" || c.HostVolumesDir != "/v" || c.HostVolumePluginDir != "/p" {
		t.Errorf("the directories are %q, %q, %q and %q", c.StateDir, c.AllocDir, c.HostVolumesDir, c.HostVolumePluginDir)
	}
}

func TestANumberWithSomethingAfterItIsNone(t *testing.T) {
	for _, args := range []string{"-server -bootstrap-expect 3x", "-server -retry-max 2.5"} {
		o := newOptions()
		err := o.flags.Parse(strings.Fields(args))
		if err == nil {
			_, err = o.load()
		}
		if err == nil || !strings.Contains(err.Error(), "is not a number") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
