// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/model"
)

// foreignBed is a real agent with a plugin that speaks only the reference's protocol and
// whose executors expect the reference's cgroups.
type foreignBed struct {
	*bed
	agent   *agent.Agent
	plugins string
	v2      bool
}

// foreignPlugin is the fixture's file name, which has it start tasks by executors.
const foreignPlugin = "executor-plugin"

// newForeignBed starts the agent, with plugins of more directories too.
func newForeignBed(t *testing.T, more ...string) *foreignBed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes cgroups")
	}
	b := &foreignBed{bed: &bed{t: t, dir: t.TempDir(), driver: newFakeDriver(), servers: newFakeServers()}, plugins: t.TempDir()}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	if b.v2 = err == nil; !b.v2 {
		for _, c := range []string{"freezer", "cpu", "memory", "cpuset"} {
			if _, err := os.Stat("/sys/fs/cgroup/" + c + "/tasks"); err != nil {
				t.Skip("the machine lacks a cgroup controller:", err)
			}
		}
	}
	file := filepath.Join(b.plugins, foreignPlugin)
	if built := os.Getenv("DROVER_TEST_FOREIGN_PLUGIN"); built != "" { // where there is no compiler
		body, err := os.ReadFile(built)
		if err == nil {
			err = os.WriteFile(file, body, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else {
		buildPlugin(t, file, "../pluginhost/testdata/nomadplugin")
	}
	for _, dir := range more {
		buildPlugin(t, filepath.Join(b.plugins, filepath.Base(dir)), dir)
	}
	b.open()
	t.Cleanup(func() {
		for _, id := range b.ids() {
			for _, pid := range processesOf(id) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return b
}

func buildPlugin(t *testing.T, file, dir string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", file, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
}

func (b *foreignBed) open() {
	b.t.Helper()
	a, err := agent.New(b.t.Context(), agent.Config{DataDir: b.dir, Servers: b.servers, PluginDir: b.plugins, Logger: hclog.NewNullLogger()})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := a.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	<-a.Ready()
	b.agent = a
}

func (b *foreignBed) close() {
	b.t.Helper()
	if err := b.agent.Close(); err != nil {
		b.t.Error(err)
	}
}

func (b *foreignBed) ids() (out []string) {
	b.servers.set(func() {
		for id := range b.servers.allocs {
			out = append(out, id)
		}
	})
	return out
}

// run has the servers place a task that runs the script, and returns its alloc's id.
func (b *foreignBed) run(script string, cores ...uint16) string {
	b.t.Helper()
	return b.runWith("hello", script, cores...)
}

func (b *foreignBed) runWith(driver, script string, cores ...uint16) string {
	b.t.Helper()
	id := fmt.Sprintf("f%d-%d", len(b.ids()), time.Now().UnixNano())
	b.servers.set(func() {
		task := newTask("web")
		task.Driver, task.Config = driver, map[string]any{"script": script}
		task.LogConfig = &model.LogConfig{Disabled: true, MaxFiles: 1, MaxFileSizeMB: 1}
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		x := newAlloc(id, task)
		x.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"web": {
			Cpu: model.AllocatedCpuResources{CpuShares: 100, ReservedCores: cores}, Memory: model.AllocatedMemoryResources{MemoryMB: 64},
		}}}
		x.AllocModifyIndex = b.servers.index
		b.servers.allocs[id] = x
	})
	return id
}

func (b *foreignBed) await(id, status string) {
	b.t.Helper()
	b.eventually(id+" is "+status, func() bool { return b.servers.report(id).ClientStatus == status })
}

// group is the directory of the task's own cgroup.
func (b *foreignBed) group(id string) string {
	if b.v2 {
		found, _ := filepath.Glob("/sys/fs/cgroup/nomad.slice/*.slice/" + id + ".web.scope")
		return strings.Join(found, " ")
	}
	dir := "/sys/fs/cgroup/freezer/nomad/" + id + ".web"
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// members are the processes in the task's cgroup.
func (b *foreignBed) members(id string) []string {
	raw, _ := os.ReadFile(filepath.Join(b.group(id), "cgroup.procs"))
	return strings.Fields(string(raw))
}

// processesOf are the machine's processes with the alloc in their environment.
func processesOf(id string) (out []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range found {
		body, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(body), "NOMAD_ALLOC_ID="+id+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			out = append(out, pid)
		}
	}
	return out
}

// killPlugin kills the plugin's process and leaves its executors.
func (b *foreignBed) killPlugin() {
	b.t.Helper()
	killed := 0
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		body, err := os.ReadFile(file)
		if err == nil && strings.HasSuffix(string(body), "/"+foreignPlugin+"\x00") && strings.HasPrefix(string(body), b.plugins) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		b.t.Fatal("the plugin's process was not found")
	}
}

func TestExecutorsOfAPluginBuiltForNomadFindTheirCgroups(t *testing.T) {
	b := newForeignBed(t)
	defer b.close()
	id := b.run("sleep 1000 & wait")
	b.await(id, "running")
	pids := b.members(id)
	if len(pids) < 2 { // the executor and the task
		t.Fatalf("in the cgroup %q: %v", b.group(id), pids)
	}
	own, err := os.ReadFile("/proc/" + pids[0] + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{":freezer:/nomad/" + id + ".web\n", ":cpu:/nomad/" + id + ".web\n", ":memory:/nomad/" + id + ".web\n", ":cpuset:/nomad/share\n"}
	if b.v2 {
		want = []string{"0::/nomad.slice/share.slice/" + id + ".web.scope\n"}
	}
	for _, w := range want {
		if !strings.Contains(strings.ReplaceAll(string(own), "cpu,cpuacct", "cpu"), w) {
			t.Errorf("the task is in\n%swithout %s", own, w)
		}
	}

	b.killPlugin()
	b.close()
	b.open()
	if now := b.members(id); !slices.Equal(now, pids) {
		t.Fatalf("after kills of the plugin and a restart of the agent %v are in the cgroup, and %v before", now, pids)
	}
	b.agent.StopAll(t.Context())
	b.await(id, "complete")
	b.eventually("its cgroup is gone", func() bool { return b.group(id) == "" && len(processesOf(id)) == 0 })
}

func TestAStartThatAnExecutorFailsLeavesNoOrphan(t *testing.T) {
	b := newForeignBed(t)
	defer b.close()
	id := b.run("sleep 1000 & wait # fail to launch")
	b.await(id, "failed")
	if got := displays(b.servers.report(id), "web"); !strings.Contains(got, "told to fail") {
		t.Errorf("events: %s", got)
	}
	b.eventually("nothing is left", func() bool { return b.group(id) == "" && len(processesOf(id)) == 0 })
}

func TestWhatAnAgentThatLostItsStateLeftInItsCgroupsIsEnded(t *testing.T) {
	b := newForeignBed(t)
	id := b.run("sleep 1000 & wait")
	b.await(id, "running")
	b.close()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(b.dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	b.servers.set(func() { delete(b.servers.allocs, id) })
	b.open()
	defer b.close()
	b.eventually("nothing is left", func() bool { return b.group(id) == "" && len(processesOf(id)) == 0 })
}

func TestATaskOfADriverThatAsksForACgroupHasItsLimits(t *testing.T) {
	if os.Getenv("DROVER_TEST_FOREIGN_PLUGIN") != "" {
		t.Skip("there is no compiler")
	}
	b := newForeignBed(t, "../../sdk/driver/v1/drivertest/testdata/driver-shell")
	defer b.close()
	id := b.runWith("shell", "sleep 1000 & wait")
	b.await(id, "running")
	if len(b.members(id)) < 2 {
		t.Fatalf("in the cgroup %q: %v", b.group(id), b.members(id))
	}
	limit := "/sys/fs/cgroup/memory/nomad/" + id + ".web/memory.limit_in_bytes"
	if b.v2 {
		limit = filepath.Join(b.group(id), "memory.max")
	}
	if got, err := os.ReadFile(limit); err != nil || strings.TrimSpace(string(got)) != "67108864" {
		t.Errorf("its limit of memory is %q, %v; want 64 MiB", got, err)
	}
	b.agent.StopAll(t.Context())
	b.await(id, "complete")
	b.eventually("its cgroup is gone", func() bool { return b.group(id) == "" })
}

func TestATaskOfAnExecutorHasItsCoresForItself(t *testing.T) {
	b := newForeignBed(t)
	defer b.close()
	with, without := b.run("sleep 1000 & wait", 0), b.run("sleep 1000 & wait")
	b.await(with, "running")
	b.await(without, "running")
	allowed := func(id string) string {
		pids := b.members(id)
		if len(pids) == 0 {
			t.Fatalf("no process of %s is in its cgroup %q", id, b.group(id))
		}
		status, _ := os.ReadFile("/proc/" + pids[0] + "/status")
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		list, _, _ := strings.Cut(rest, "\n")
		return list
	}
	if got := allowed(with); got != "0" {
		t.Errorf("the task with core 0 may use %q", got)
	}
	if got := allowed(without); strings.HasPrefix(got, "0") && strings.ContainsAny(got, ",-") {
		t.Errorf("the task without cores may use %q", got)
	}
	b.agent.StopAll(t.Context())
	b.await(with, "complete")
	b.eventually("the cores are shared again", func() bool {
		share := "/sys/fs/cgroup/cpuset/nomad/share/cpuset.cpus"
		if b.v2 {
			share = "/sys/fs/cgroup/nomad.slice/share.slice/cpuset.cpus"
		}
		list, err := os.ReadFile(share)
		return err == nil && strings.HasPrefix(string(list), "0")
	})
}
