// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// module is the import path of the repository's root.
const module = "github.com/drover-project/drover/"

// bin is the directory of the binaries, which are built once per run.
var bin string

// Bin returns the directory of the binaries: drover, drover-plugins, driver-exec and
// driver-docker.
func Bin() string { return bin }

// Main builds the binaries, runs the tests and returns the exit status. Each package
// of black-box tests calls it in TestMain.
func Main(m *testing.M) int {
	if runtime.GOOS != "linux" {
		return 0 // the harness reads /proc
	}
	if bin = os.Getenv("DROVER_TEST_BIN"); bin != "" { // of a machine that cannot build them
		return m.Run()
	}
	var err error
	if bin, err = os.MkdirTemp("", "drover-e2e-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	for _, command := range []string{"cmd/drover", "cmd/drover-plugins", "plugins/driver-docker"} {
		if err := build(filepath.Join(bin, filepath.Base(command)), command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Symlink("drover-plugins", filepath.Join(bin, "driver-exec")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := parallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// parallel lets as many tests of this process run at once as there are slots, unless a
// flag says otherwise: they mostly wait, so the number of processors is no measure.
func parallel() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(slots))
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

// made are the files below bin/e2e that this process has built, or found as they should be.
var made = struct {
	sync.Mutex
	files map[string]bool
}{files: map[string]bool{}}

// build builds a command into a file. It keeps what it builds below bin/e2e of the
// repository, where the go command links it only if it has changed, and where all packages
// of black-box tests find it.
func build(file, command string, flags ...string) error {
	made.Lock()
	defer made.Unlock()
	dir, err := kept()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(flags, "\x00")))
	whole := filepath.Join(dir, fmt.Sprintf("%s-%x", strings.ReplaceAll(command, "/", "_"), sum[:4]))
	lock, err := os.OpenFile(whole+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // of other processes
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if !made.files[whole] {
		cmd := exec.Command("go", append(append([]string{"build", "-o", whole}, flags...), module+command)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", command, err, out)
		}
		made.files[whole] = true
	}
	body, err := os.ReadFile(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o755)
}

// kept returns the directory bin/e2e of the repository.
func kept() (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			dir := filepath.Join(root, "bin", "e2e")
			return dir, os.MkdirAll(dir, 0o755)
		}
		above := filepath.Dir(root)
		if above == root {
			return "", errors.New("the tests do not run in the repository: no directory above has a go.work")
		}
		root = above
	}
}
