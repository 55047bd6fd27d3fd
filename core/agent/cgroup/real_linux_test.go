// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/cgroup"
)

// realRoot is a part of this machine's cgroups that the test has for itself. The test is
// skipped where it may not make one.
func realRoot(t *testing.T) (root string, version int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes cgroups")
	}
	own := "drover-test-" + strconv.Itoa(os.Getpid())
	if _, err := os.Stat(filepath.Join(cgroup.Root, "cgroup.controllers")); err == nil {
		if err := os.WriteFile(filepath.Join(cgroup.Root, "cgroup.subtree_control"), []byte("+cpuset +cpu +io +memory +pids"), 0); err != nil {
			t.Skip("the machine's cgroups cannot pass controllers on:", err)
		}
		root = filepath.Join(cgroup.Root, own)
		mkcgroup(t, root)
		return root, 2
	}
	root = t.TempDir()
	for _, c := range []string{"freezer", "cpu", "memory", "cpuset"} {
		mount := filepath.Join(cgroup.Root, c)
		if _, err := os.Stat(filepath.Join(mount, "tasks")); err != nil {
			t.Skip("the machine lacks a controller:", err)
		}
		mkcgroup(t, filepath.Join(mount, own))
		if err := os.Symlink(filepath.Join(mount, own), filepath.Join(root, c)); err != nil {
			t.Fatal(err)
		}
		if c != "cpuset" {
			continue
		}
		for _, file := range []string{"cpuset.mems", "cpuset.cpus"} {
			value, err := os.ReadFile(filepath.Join(mount, file))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(mount, own, file), string(value))
		}
	}
	return root, 1
}

// mkcgroup makes a cgroup that is removed, with those below it, after the test.
func mkcgroup(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("cgroups cannot be made here:", err)
	}
	t.Cleanup(func() {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, d := range slices.Backward(all) {
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
		}
	})
}

// realTree has all cores of the machine.
func realTree(t *testing.T, root string) *cgroup.Tree {
	t.Helper()
	var cores []int
	for line := range strings.Lines(read(t, "/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "processor" {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			cores = append(cores, n)
		}
	}
	return cgroup.New(cgroup.Config{Root: root, Owner: "me", Cores: func() []int { return cores }})
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// forker starts a shell that forks without end, in all directories of the group.
func forker(t *testing.T, g *cgroup.Group, extra ...string) *exec.Cmd {
	t.Helper()
	script := ""
	for _, dir := range g.Dirs {
		script += "echo $$ > " + dir + "/cgroup.procs || exit 3; "
	}
	for _, dir := range extra {
		script += "mkdir " + dir + " && echo $$ > " + dir + "/cgroup.procs || exit 4; "
	}
	cmd := exec.Command("/bin/sh", "-c", script+"echo in; while :; do (sleep 1000 & sleep 0.02) & sleep 0.05; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "in\n" {
		t.Fatalf("the task said %q, %v", line, err)
	}
	return cmd
}

func TestRemovingAGroupKillsWhatForksInIt(t *testing.T) {
	root, version := realRoot(t)
	tr := realTree(t, root)
	for _, cores := range [][]int{nil, {0}} {
		g := made(t, tr, cgroup.Task{AllocID: "a1", Name: "web", Cores: cores, Limits: &cgroup.Limits{MemoryBytes: 256 << 20, MemoryLowBytes: 64 << 20, CPUShares: 100}})
		if g.Version != version {
			t.Fatalf("version %d, want %d", g.Version, version)
		}
		below := filepath.Join(g.Dirs["memory"], "below") // as a task that is root may make one
		cmd := forker(t, g, below)
		if status := read(t, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); cores != nil && !strings.Contains(status, "Cpus_allowed_list:\t0\n") {
			t.Errorf("the task with a core may use %s", status)
		}
		if err := tr.Remove(within(t), "a1", "web"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the task ended with %v, want SIGKILL", err)
		}
		if tr.Has("a1", "web") {
			t.Error("the group is left")
		}
	}
}

func TestMakingAGroupAnewEndsWhatAnEarlierRunLeft(t *testing.T) {
	root, _ := realRoot(t)
	tr := realTree(t, root)
	task := cgroup.Task{AllocID: "a1", Name: "web"}
	cmd := forker(t, made(t, tr, task))
	made(t, realTree(t, root), task) // by the next agent
	if err := cmd.Wait(); err == nil {
		t.Error("the task goes on")
	}
	if err := tr.Remove(within(t), "a1", "web"); err != nil {
		t.Error(err)
	}
}

// sharedCores is the file with the cores of the tasks that have none for themselves.
func sharedCores(root string, version int) string {
	if version == 2 {
		return root + "/nomad.slice/share.slice/cpuset.cpus"
	}
	return root + "/cpuset/nomad/share/cpuset.cpus"
}

func TestTheSharedCoresFollowReservations(t *testing.T) {
	root, version := realRoot(t)
	tr := realTree(t, root)
	made(t, tr, cgroup.Task{AllocID: "a1", Name: "web"})
	share := sharedCores(root, version)
	all := read(t, share)
	if all == "0\n" {
		t.Skip("the machine has one core")
	}
	made(t, tr, cgroup.Task{AllocID: "a2", Name: "db", Cores: []int{0}})
	if now := read(t, share); strings.HasPrefix(now, "0") || now == "\n" {
		t.Errorf("with a reserved core the others share %q", now)
	}
	for _, id := range []string{"a2/db", "a1/web"} {
		alloc, name, _ := strings.Cut(id, "/")
		if err := tr.Remove(within(t), alloc, name); err != nil {
			t.Error(err)
		}
	}
	if now := read(t, share); now != all {
		t.Errorf("in the end they share %q, and %q in the beginning", now, all)
	}
}

// TestCoresOfARemovedGroupAreSharedAtOnce ends and makes groups in quick succession: the
// kernel counts a group of version 1 as a child for a while after it was removed, and lets
// its parent give up no core meanwhile.
func TestCoresOfARemovedGroupAreSharedAtOnce(t *testing.T) {
	root, version := realRoot(t)
	tr := realTree(t, root)
	made(t, tr, cgroup.Task{AllocID: "a1", Name: "web"})
	share := sharedCores(root, version)
	all := read(t, share)
	for i := range 100 {
		id := fmt.Sprint("b", i)
		made(t, tr, cgroup.Task{AllocID: id, Name: "db", Cores: []int{0}})
		if err := tr.Remove(within(t), id, "db"); err != nil {
			t.Fatal(err)
		}
		if now := read(t, share); now != all {
			t.Fatalf("after %d groups the others share %q, and %q in the beginning", i+1, now, all)
		}
	}
	if err := tr.Remove(within(t), "a1", "web"); err != nil {
		t.Error(err)
	}
}
