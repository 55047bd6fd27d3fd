// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/cgroup"
)

// within is how long a test waits for what must happen.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, path, value string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fakeV1 is a machine with cgroups of version 1 without those controllers.
func fakeV1(t *testing.T, without ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, c := range []string{"freezer", "cpu", "memory", "cpuset"} {
		if !slices.Contains(without, c) {
			put(t, filepath.Join(root, c, "tasks"), "")
		}
	}
	if !slices.Contains(without, "cpuset") {
		put(t, filepath.Join(root, "cpuset", "cpuset.mems"), "0\n")
	}
	return root
}

// fakeV2 is a machine with cgroups of version 2.
func fakeV2(t *testing.T, controllers string) string {
	t.Helper()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), controllers+"\n")
	put(t, filepath.Join(root, "cgroup.subtree_control"), "cpu\n")
	return root
}

const allControllers = "cpuset cpu io memory hugetlb pids"

func tree(root string, log hclog.Logger) *cgroup.Tree {
	return cgroup.NewFake(cgroup.Config{Root: root, Owner: "me", Cores: func() []int { return []int{0, 1, 2, 3} }, Logger: log})
}

func made(t *testing.T, tr *cgroup.Tree, task cgroup.Task) *cgroup.Group {
	t.Helper()
	g, err := tr.Make(within(t), task)
	if err != nil || g == nil {
		t.Fatalf("group %v, %v", g, err)
	}
	return g
}

// expect compares the contents of files below root.
func expect(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for file, want := range files {
		got, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestATaskOnVersion1GetsTheGroupsThatExecutorsExpect(t *testing.T) {
	root := fakeV1(t)
	tr := tree(root, nil)
	g := made(t, tr, cgroup.Task{AllocID: "a1", Name: "web"})
	if g.Version != 1 || g.Dirs["cpuset"] != root+"/cpuset/nomad/share" || g.Dirs["freezer"] != root+"/freezer/nomad/a1.web" {
		t.Errorf("group %+v", g)
	}
	expect(t, root, map[string]string{
		"cpuset/nomad/cgroup.clone_children": "0", "cpuset/nomad/cpuset.mems": "0", "cpuset/nomad/cpuset.cpus": "0,1,2,3",
		"cpuset/nomad/share/cpuset.mems": "0", "cpuset/nomad/share/cpuset.cpus": "0,1,2,3", "cpuset/nomad/reserve/cpuset.mems": "0",
	})
	for _, c := range []string{"freezer", "cpu", "memory"} {
		if _, err := os.Stat(filepath.Join(root, c, "nomad", "a1.web")); err != nil {
			t.Error(err)
		}
	}
	g = made(t, tr, cgroup.Task{AllocID: "a2", Name: "db", Cores: []int{1, 2}, Limits: &cgroup.Limits{MemoryBytes: 9 << 20, MemoryLowBytes: 1 << 20, CPUShares: 500}})
	if g.Dirs["cpuset"] != root+"/cpuset/nomad/reserve/a2.db" {
		t.Errorf("group %+v", g)
	}
	expect(t, root, map[string]string{
		"cpuset/nomad/reserve/a2.db/cpuset.mems": "0", "cpuset/nomad/reserve/a2.db/cpuset.cpus": "1,2", "cpuset/nomad/reserve/cpuset.cpus": "1,2",
		"cpuset/nomad/share/cpuset.cpus": "0,3", "memory/nomad/a2.db/memory.limit_in_bytes": "9437184", "cpu/nomad/a2.db/cpu.shares": "500",
		"memory/nomad/a2.db/memory.soft_limit_in_bytes": "1048576",
	})
	for _, task := range []string{"a1/web", "a2/db"} {
		id, name, _ := strings.Cut(task, "/")
		if err := tr.Remove(within(t), id, name); err != nil || tr.Has(id, name) {
			t.Error(task, err)
		}
	}
	expect(t, root, map[string]string{"cpuset/nomad/share/cpuset.cpus": "0,1,2,3", "cpuset/nomad/reserve/cpuset.cpus": ""})
}

func TestATaskOnVersion2GetsAScopeInItsSlice(t *testing.T) {
	root := fakeV2(t, allControllers)
	tr := tree(root, nil)
	g := made(t, tr, cgroup.Task{AllocID: "a1", Name: "web", Limits: &cgroup.Limits{MemoryBytes: 9 << 20, CPUShares: 2}})
	if g.Version != 2 || g.Dirs["cpuset"] != root+"/nomad.slice/share.slice/a1.web.scope" {
		t.Errorf("group %+v", g)
	}
	expect(t, root, map[string]string{
		"cgroup.subtree_control": "+cpuset +io +memory +pids", "nomad.slice/cgroup.subtree_control": "+cpuset +cpu +io +memory +pids",
		"nomad.slice/share.slice/cgroup.subtree_control": "+cpuset +cpu +io +memory +pids", "nomad.slice/reserve.slice/cgroup.subtree_control": "+cpuset +cpu +io +memory +pids",
		"nomad.slice/share.slice/a1.web.scope/memory.max": "9437184", "nomad.slice/share.slice/a1.web.scope/cpu.weight": "1",
	})
	g = made(t, tr, cgroup.Task{AllocID: "a2", Name: "db", Cores: []int{3}})
	if g.Dirs["memory"] != root+"/nomad.slice/reserve.slice/a2.db.scope" {
		t.Errorf("group %+v", g)
	}
	expect(t, root, map[string]string{
		"nomad.slice/reserve.slice/a2.db.scope/cpuset.cpus": "3", "nomad.slice/reserve.slice/cpuset.cpus": "3", "nomad.slice/share.slice/cpuset.cpus": "0,1,2",
	})
	if err := tr.Remove(within(t), "a2", "db"); err != nil {
		t.Fatal(err)
	}
	expect(t, root, map[string]string{"nomad.slice/share.slice/cpuset.cpus": "0,1,2,3", "nomad.slice/reserve.slice/cpuset.cpus": ""})
}

func TestCoresAreSharedByWhatNoTaskOfAnyAgentHas(t *testing.T) {
	root := fakeV1(t)
	tr := tree(root, nil)
	share := func(want string) {
		t.Helper()
		expect(t, root, map[string]string{"cpuset/nomad/share/cpuset.cpus": want})
	}
	reserve := func(alloc string, cores ...int) {
		t.Helper()
		if !tr.Reserve(alloc, cores) || tr.Reserve(alloc, cores) {
			t.Error("a change is not told from a repetition")
		}
		if err := tr.Adjust(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	reserve("other", 0) // a task of a driver with its own groups
	if _, err := os.Stat(filepath.Join(root, "cpuset", "nomad")); err == nil {
		t.Error("a tree was made although no task wants a group")
	}
	made(t, tr, cgroup.Task{AllocID: "a1", Name: "web"})
	share("1,2,3")
	second := tree(root, nil) // another agent, or this one after a restart
	made(t, second, cgroup.Task{AllocID: "b1", Name: "db", Cores: []int{3}})
	reserve("other")
	share("0,1,2")
	reserve("all", 0, 1, 2)
	share("0,1,2,3") // who has no cores must run somewhere
	if err := second.Remove(within(t), "b1", "db"); err != nil {
		t.Fatal(err)
	}
	reserve("all")
	share("0,1,2,3")
}

func TestAMachineWithoutAControllerHasNoTreeAndSaysSoOnce(t *testing.T) {
	for name, root := range map[string]string{"freezer": fakeV1(t, "freezer"), "io": fakeV2(t, "cpuset cpu memory pids"), "cpuset": fakeV1(t, "cpuset")} {
		var log strings.Builder
		tr := tree(root, hclog.New(&hclog.LoggerOptions{Output: &log}))
		for range 3 {
			if g, err := tr.Make(within(t), cgroup.Task{AllocID: "a", Name: "web"}); g != nil || err != nil {
				t.Fatalf("without %s: %v, %v", name, g, err)
			}
		}
		if err := tr.Remove(within(t), "a", "web"); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), name) {
			t.Errorf("without %s it logged %q", name, log.String())
		}
		for _, dir := range []string{"cpu/nomad", "nomad.slice"} {
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				t.Errorf("without %s it made %s", name, dir)
			}
		}
	}
}

func TestSweepRemovesWhatThisAgentMadeAndNobodyOwns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the mark of an agent is an attribute that only root may set")
	}
	for _, root := range []string{fakeV1(t), fakeV2(t, allControllers)} {
		tr := tree(root, nil)
		made(t, tr, cgroup.Task{AllocID: "a1", Name: "left.over", Cores: []int{2}})
		made(t, tr, cgroup.Task{AllocID: "a2", Name: "owned"})
		other := cgroup.NewFake(cgroup.Config{Root: root, Owner: "another", Cores: func() []int { return []int{0, 1, 2, 3} }})
		made(t, other, cgroup.Task{AllocID: "b1", Name: "theirs"})
		again := tree(root, nil) // the next agent
		gone, err := again.Sweep(within(t), func(allocID, task string) bool { return allocID == "a2" && task == "owned" })
		if err != nil || strings.Join(gone, " ") != "a1.left.over" {
			t.Errorf("removed %v, %v", gone, err)
		}
		if again.Has("a1", "left.over") || !again.Has("a2", "owned") || !again.Has("b1", "theirs") {
			t.Error("the wrong ones are left")
		}
	}
}

func TestATaskWhoseNameIsAPathGetsNoGroup(t *testing.T) {
	if g, err := tree(fakeV1(t), nil).Make(within(t), cgroup.Task{AllocID: "a", Name: "../../x"}); g != nil || err == nil {
		t.Errorf("%v, %v", g, err)
	}
}

func TestTasksWithoutCoresShareThoseThatNoAllocHasReserved(t *testing.T) {
	tr := cgroup.New(cgroup.Config{
		Root: t.TempDir(), Cores: func() []int { return []int{1, 2, 3} }, All: func() []int { return []int{0, 1, 2, 3} },
	})
	for _, x := range []struct {
		alloc string
		cores []int
		want  string
	}{
		{"a", nil, "[1 2 3] true"}, // the operator keeps a core
		{"a", []int{1}, "[2 3] true"},
		{"b", []int{3}, "[2] true"},
		{"c", []int{2}, "[1 2 3] true"}, // tasks must be able to run somewhere
		{"a", nil, "[1] true"},
	} {
		tr.Reserve(x.alloc, x.cores)
		if cores, fewer := tr.Shared(); fmt.Sprint(cores, fewer) != x.want {
			t.Errorf("%s has %v: %v %t, want %s", x.alloc, x.cores, cores, fewer, x.want)
		}
	}
	all := cgroup.New(cgroup.Config{Root: t.TempDir(), Cores: func() []int { return []int{0, 1} }})
	if cores, fewer := all.Shared(); fewer {
		t.Errorf("nothing is reserved: %v", cores)
	}
}
