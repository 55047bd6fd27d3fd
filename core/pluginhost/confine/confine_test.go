// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package confine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
)

// tree makes directories with files that the kernel would make.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func expect(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", name, got, want, err)
		}
	}
}

func TestVersion2GroupsLieBelowTheAgentsOwn(t *testing.T) {
	root := tree(t, map[string]string{"svc/cgroup.subtree_control": "cpu pids memory", "svc/drover-plugins/cgroup.subtree_control": "memory pids"})
	g := confine.Parse("30 23 0:28 / "+root+" rw - cgroup2 cgroup2 rw\n", "0::/svc\n")
	if err := g.Put("x", 42, confine.Limits{MemoryMB: 64, Pids: 100}); err != nil {
		t.Fatal(err)
	}
	expect(t, root, map[string]string{
		"svc/drover-plugins/x/pids.max": "100", "svc/drover-plugins/x/memory.max": "67108864", "svc/drover-plugins/x/cgroup.procs": "42",
	})
}

func TestVersion2GroupsLieBelowTheRootWhereTheAgentsOwnCannotPassControllersOn(t *testing.T) {
	root := tree(t, map[string]string{"cgroup.subtree_control": "pids", "drover-plugins/cgroup.subtree_control": "pids"})
	g := confine.Parse("30 23 0:28 / "+root+" rw - cgroup2 cgroup2 rw\n", "0::/svc\n")
	if err := g.Put("x", 42, confine.Limits{Pids: 100}); err != nil {
		t.Fatal(err)
	}
	expect(t, root, map[string]string{"drover-plugins/x/pids.max": "100", "drover-plugins/x/cgroup.procs": "42"})
}

func TestWithoutCgroupsALimitIsRefusedWithTheReason(t *testing.T) {
	g := confine.Parse("", "")
	if err := g.Put("x", 42, confine.Limits{Pids: 1}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "pids") {
		t.Fatal(err)
	}
	if err := g.Put("x", 42, confine.Limits{}); err != nil {
		t.Fatalf("nothing to limit: %v", err)
	}
}

func TestAContainersPartOfAHierarchyIsFound(t *testing.T) {
	root := tree(t, nil)
	g := confine.Parse("39 31 0:36 /docker/abc "+root+" rw - cgroup cgroup rw,pids\n", "8:pids:/docker/abc/agent\n")
	if err := g.Put("x", 42, confine.Limits{Pids: 9}); err != nil {
		t.Fatal(err)
	}
	expect(t, root, map[string]string{"agent/drover-plugins/x/pids.max": "9", "agent/drover-plugins/x/cgroup.procs": "42"})
}

func TestOldGroupsWithoutProcessesAreSwept(t *testing.T) {
	root := tree(t, map[string]string{"drover-plugins/busy.1/cgroup.procs": "42"})
	for _, name := range []string{"old.1", "young.1", "busy.1"} {
		dir := filepath.Join(root, "drover-plugins", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "young.1" {
			hour := time.Now().Add(-time.Hour)
			if err := os.Chtimes(dir, hour, hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	confine.Parse("39 31 0:36 / "+root+" rw - cgroup cgroup rw,pids\n", "8:pids:/\n").Sweep(time.Now().Add(-time.Minute), 100)
	left, err := os.ReadDir(filepath.Join(root, "drover-plugins"))
	if err != nil || len(left) != 2 || left[0].Name() != "busy.1" || left[1].Name() != "young.1" {
		t.Fatalf("left: %v, %v", left, err)
	}
}

func TestWhatAProcessForksAtOnceIsBornInItsCgroup(t *testing.T) {
	g, err := confine.Find()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("birth-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	driver := confine.RightsOf(confine.ProfileDriver, confine.Access{})
	collector := confine.RightsOf(confine.ProfileStats, confine.Access{}) // its filter refuses what version 2 needs for a birth
	collector.RestrictFiles = false                                       // it is no plugin's file that runs
	for i := range 20 {
		rights := []*confine.Rights{&driver, &collector}[i%2]
		birth, err := g.Birth(name, confine.Limits{Pids: 100})
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Skipf("no cgroup may be written here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		// It has left before anybody could look at it, and its child has no parent that is known.
		cmd := exec.Command("/bin/sh", "-c", `setsid sleep 1000 & exit 0`)
		if born, err := confine.Start(cmd, rights, confine.Identity{UID: os.Geteuid(), GID: os.Getegid()}, birth); err != nil || born != nil {
			t.Fatal(born, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := g.EndOthers(name, nil); n == 0 { // it may be counted in several hierarchies
			t.Fatal("the child was not in the cgroup")
		}
	}
	for deadline := time.Now().Add(time.Minute); !g.Remove(name); {
		if time.Now().After(deadline) {
			t.Fatal("the cgroup is still there")
		}
	}
}

func TestAProcessIsHeldByItsLimitsOnThisMachine(t *testing.T) {
	g, err := confine.Find()
	if err != nil {
		t.Fatal(err)
	}
	name := "confine-test-" + filepath.Base(t.TempDir())
	cmd := exec.Command("/bin/sh", "-c", `read go; for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; wait`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Put(name, cmd.Process.Pid, confine.Limits{Pids: 4}); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Skipf("no cgroup may be written here: %v", err)
		}
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == 0 {
		t.Fatalf("eight children within a limit of four: %v", err)
	}
	// What it could start is ended, and then the group can go.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	left := func() []string {
		found, _ := filepath.Glob("/sys/fs/cgroup/*/drover-plugins/" + name)
		return found
	}
	for deadline := time.Now().Add(time.Minute); len(left()) > 0; g.Remove(name) {
		if time.Now().After(deadline) {
			t.Fatalf("%v is still there", left())
		}
	}
}
