// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden lists of linked modules anew")

// notInDaemon lists modules that must not be linked into the agent's binary, because
// they belong to plugins.
var notInDaemon = []string{"go-getter", "aws-sdk-go", "minio", "cloud.google.com", "docker", "moby", "nvml", "container-storage-interface", "hashicorp/consul", "opencontainers/runc", "libcontainer", "libvirt"}

// linked lists the modules that a command links on Linux.
func linked(t *testing.T, cmdPkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+cmdPkg)
	cmd.Dir = repoRoot
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", cmdPkg, err)
	}
	mods := strings.Fields(string(out))
	slices.Sort(mods)
	mods = slices.Compact(mods)
	return slices.DeleteFunc(mods, func(m string) bool { return m == module || m == module+"/sdk" })
}

func TestLinkedModulesAreTheGoldenList(t *testing.T) {
	for _, cmdPkg := range []string{"cmd/drover", "cmd/drover-plugins", "cmd/drover-artifact", "cmd/drover-s3"} {
		golden := filepath.Join(repoRoot, cmdPkg, "deps.txt")
		got := strings.Join(linked(t, cmdPkg), "\n") + "\n"
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s links other modules than %s/deps.txt says; if that is meant, run `make golden` and commit the difference\n got: %s\nwant: %s",
				cmdPkg, cmdPkg, strings.Fields(got), strings.Fields(string(want)))
		}
	}
}

func TestDaemonLinksNoDaemonOrHardwareClient(t *testing.T) {
	for _, m := range linked(t, "cmd/drover") {
		for _, bad := range notInDaemon {
			if strings.Contains(m, bad) {
				t.Errorf("cmd/drover links %s: what faces hardware or a foreign daemon lives in a plugin", m)
			}
		}
	}
}
