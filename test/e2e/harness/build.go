// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// module is the import path of the repository's root.
const module = "github.com/drover-project/drover/"

// bin is the directory of the binaries, which are built once per run.
var bin string

// Bin returns the directory of the binaries: drover, drover-plugins and driver-exec.
func Bin() string { return bin }

// Main builds the binaries, runs the tests and returns the exit status. Each package
// of black-box tests calls it in TestMain.
func Main(m *testing.M) int {
	if runtime.GOOS != "linux" {
		return 0 // the harness reads /proc
	}
	var err error
	if bin, err = os.MkdirTemp("", "drover-e2e-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	for _, name := range []string{"drover", "drover-plugins"} {
		if err := build(filepath.Join(bin, name), "cmd/"+name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Symlink("drover-plugins", filepath.Join(bin, "driver-exec")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds a command of the repository, such as "plugins/driver-exec", into a file.
func Build(t *testing.T, file, command string, flags ...string) {
	t.Helper()
	if err := build(file, command, flags...); err != nil {
		t.Fatal(err)
	}
}

// BuildPlugin builds a first-party plugin, such as "driver-exec", with a version and
// returns its file.
func BuildPlugin(t *testing.T, name, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+"-"+version)
	of := module + "plugins/" + name + "/" + strings.ReplaceAll(name, "-", "") // the package that has the version
	Build(t, path, "plugins/"+name, "-ldflags", "-X "+of+".Version="+version)
	return path
}

// BuildFetcher builds drover-artifact beside drover, for tests of artifacts.
func BuildFetcher(t *testing.T) {
	t.Helper()
	Build(t, filepath.Join(bin, "drover-artifact"), "cmd/drover-artifact")
}

// BuildS3 builds drover-s3 beside drover, for tests of stores of snapshots.
func BuildS3(t *testing.T) {
	t.Helper()
	Build(t, filepath.Join(bin, "drover-s3"), "cmd/drover-s3")
}

func build(file, command string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", file}, flags...), module+command)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return nil
}
