// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The SDK is a module of its own, so that plugins do not require what the daemon does.
const (
	maxRequired = 20 // modules in sdk/go.mod
	maxGraph    = 70 // modules of which the go command reads the go.mod
)

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(.*)$`)

// requirements returns the versions that a go.mod requires, by module; direct leaves out
// those that only others need.
func requirements(t *testing.T, file string, direct bool) map[string]string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(repoRoot, file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(body), -1) {
		if !direct || !strings.Contains(m[3], "indirect") {
			out[m[1]] = m[2]
		}
	}
	return out
}

func TestAPluginRequiresFewModules(t *testing.T) {
	if n := len(requirements(t, "sdk/go.mod", false)); n == 0 || n > maxRequired {
		t.Errorf("sdk/go.mod requires %d modules, and at most %d are meant: every plugin has them", n, maxRequired)
	}
	cmd := exec.Command("go", "list", "-m", "all")
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Join(repoRoot, "sdk"), append(os.Environ(), "GOWORK=off"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -m all: %v", err)
	}
	if n := strings.Count(string(out), "\n"); n > maxGraph {
		t.Errorf("the SDK's graph has %d modules, and at most %d are meant", n, maxGraph)
	}
}

func TestTheSDKIsTestedWithTheVersionsThatItRequires(t *testing.T) {
	ours := requirements(t, "go.mod", false)
	for module, version := range requirements(t, "sdk/go.mod", true) {
		if v := ours[module]; v != "" && v != version {
			t.Errorf("sdk/go.mod requires %s %s and go.mod %s; make them the same", module, version, v)
		}
	}
}
