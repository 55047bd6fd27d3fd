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
	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// foreignBed is a real agent with a plugin that speaks only the reference's protocol and
// whose executors expect the reference's cgroups.
type foreignBed struct {
	*bed
	agent   *agent.Agent
	plugins string
	names   []string // of the plugins' files
	v2      bool
}

// newForeignBed starts the agent with the fixture under a name that has it start tasks by
// executors, and with plugins of more directories.
func newForeignBed(t *testing.T, more ...string) *foreignBed {
	t.Helper()
	return newForeignBedOf(t, []string{"executor-plugin"}, more...)
}

// newForeignBedOf starts the agent with the fixture under names that say what it is like.
func newForeignBedOf(t *testing.T, names []string, more ...string) *foreignBed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes cgroups")
	}
	b := &foreignBed{bed: &bed{t: t, dir: t.TempDir(), driver: newFakeDriver(), servers: newFakeServers()}, plugins: t.TempDir(), names: names}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	if b.v2 = err == nil; !b.v2 {
		for _, c := range []string{"freezer", "cpu", "memory", "cpuset"} {
			if _, err := os.Stat("/sys/fs/cgroup/" + c + "/tasks"); err != nil {
				t.Skip("the machine lacks a cgroup controller:", err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "plugin")
	if built := os.Getenv("DROVER_TEST_FOREIGN_PLUGIN"); built != "" { // where there is no compiler
		file = built
	} else {
		buildPlugin(t, file, "../pluginhost/testdata/nomadplugin")
	}
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(b.plugins, name), body, 0o755); err != nil {
			t.Fatal(err)
		}
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
	a, err := agent.New(b.t.Context(), agent.Config{DataDir: b.dir, Servers: b.servers, PluginDir: b.plugins,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: b.t.Output()})})
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
	return b.place(driver, script, func(r *model.AllocatedTaskResources) { r.Cpu.ReservedCores = cores })
}

// place has the servers place a task with the resources that give adds to.
func (b *foreignBed) place(driver, script string, give func(*model.AllocatedTaskResources)) string {
	b.t.Helper()
	id := fmt.Sprintf("f%d-%d", len(b.ids()), time.Now().UnixNano())
	b.servers.set(func() {
		task := newTask("web")
		task.Driver, task.Config = driver, map[string]any{"script": script}
		task.LogConfig = &model.LogConfig{Disabled: true, MaxFiles: 1, MaxFileSizeMB: 1}
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		x := newAlloc(id, task)
		r := &model.AllocatedTaskResources{
			Cpu: model.AllocatedCpuResources{CpuShares: 100}, Memory: model.AllocatedMemoryResources{MemoryMB: 64},
		}
		give(r)
		x.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"web": r}}
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

// groupsOf are the cgroups of the alloc's processes, wherever they are.
func (b *foreignBed) groupsOf(id string) map[int]string {
	out := map[int]string{}
	for _, pid := range processesOf(id) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		out[pid] = string(raw)
	}
	return out
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

// killPlugin kills the plugins' processes and leaves their executors.
func (b *foreignBed) killPlugin() {
	b.t.Helper()
	killed := 0
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		body, err := os.ReadFile(file)
		name, ours := strings.CutPrefix(strings.TrimSuffix(string(body), "\x00"), b.plugins+"/")
		if err == nil && ours && slices.Contains(b.names, name) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed != len(b.names) {
		b.t.Fatalf("%d processes of the plugins %q were found", killed, b.names)
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
			t.Fatalf("no process of %s is in its cgroup %q; its processes are in %v", id, b.group(id), b.groupsOf(id))
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
	share, reserve := "/sys/fs/cgroup/cpuset/nomad/share", "/sys/fs/cgroup/cpuset/nomad/reserve"
	if b.v2 {
		share, reserve = "/sys/fs/cgroup/nomad.slice/share.slice", "/sys/fs/cgroup/nomad.slice/reserve.slice"
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cores and processes of the groups: %q", filesBelow(reserve, "cpuset.cpus", "cgroup.procs"))
		}
	})
	b.eventually("the cores are shared again", func() bool {
		list, err := os.ReadFile(filepath.Join(share, "cpuset.cpus"))
		return err == nil && strings.HasPrefix(string(list), "0")
	})
}

// filesBelow are the contents of the files with one of the names in a directory tree.
func filesBelow(dir string, names ...string) map[string]string {
	out := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && slices.Contains(names, filepath.Base(path)) {
			body, _ := os.ReadFile(path)
			out[path] = string(body)
		}
		return nil
	})
	return out
}

// TestADriverAndADeviceBuiltForNomadServeATaskOverKills has the driver start tasks itself, as
// one whose tasks are kept by a daemon does.
func TestADriverAndADeviceBuiltForNomadServeATaskOverKills(t *testing.T) {
	b := newForeignBedOf(t, []string{"hello-plugin", "abacus-device"})
	defer b.close()
	id := b.place("hello", "exec sleep 1000", func(r *model.AllocatedTaskResources) {
		r.Devices = []*model.AllocatedDeviceResource{{Vendor: "acme", Type: "abacus", Name: "mk1", DeviceIDs: []string{"a2"}}}
	})
	b.await(id, "running")
	pids := processesOf(id)
	if len(pids) != 1 {
		t.Fatalf("processes of the task: %v", pids)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0])); err != nil || !strings.Contains(string(env), "\x00ABACI=a2\x00") {
		t.Errorf("the environment of the task is %q, %v", env, err)
	}
	b.killPlugin()
	b.close()
	b.open()
	if now := processesOf(id); !slices.Equal(now, pids) {
		t.Errorf("after kills of the plugins and a restart of the agent %v run, and %v before", now, pids)
	}
	b.agent.StopAll(t.Context())
	b.await(id, "complete")
	b.eventually("nothing is left", func() bool { return len(processesOf(id)) == 0 })
}

// TestAChrootDriverFindsTheRootFileSystemOfItsTasks has a driver that only changes the root
// directory of its tasks to their folder, over kills of the plugin and of the agent.
func TestAChrootDriverFindsTheRootFileSystemOfItsTasks(t *testing.T) {
	b := newForeignBedOf(t, []string{"chroot-plugin"})
	defer b.close()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip(err)
	}
	id := b.run(`echo hello > /alloc/data/from && echo own > "$NOMAD_TASK_DIR/own" && if touch /usr/x 2>/dev/null; then exit 7; fi
trap 'echo end > /alloc/data/end; exit 0' TERM; while :; do sleep 0.1; done`)
	b.await(id, "running")
	root := filepath.Join(b.dir, "alloc", id)
	wrote := func(path, body string) {
		t.Helper()
		b.eventually("the task writes "+path, func() bool {
			got, err := os.ReadFile(filepath.Join(root, path))
			return err == nil && string(got) == body+"\n"
		})
	}
	wrote("alloc/data/from", "hello")
	wrote("web/local/own", "own")
	if _, err := (allocdir.Dir{Path: root}).Open("web/etc/passwd"); !errdefs.IsPermissionDenied(err) {
		t.Errorf("the files of the machine can be read through the alloc: %v", err)
	}
	b.killPlugin()
	b.close()
	b.open()
	if _, err := os.Stat(filepath.Join(root, "web/bin/sh")); err != nil {
		t.Errorf("the root of a running task is gone after a restart of the agent: %v", err)
	}
	b.agent.StopAll(t.Context())
	b.await(id, "complete")
	wrote("alloc/data/end", "end")
	b.eventually("nothing is mounted in the folder of the ended task", func() bool {
		body, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && !strings.Contains(string(body), filepath.Join(root, "web")+"/usr ") && !strings.Contains(string(body), filepath.Join(root, "web")+"/alloc ")
	})
	if _, err := os.Stat("/usr/bin"); err != nil {
		t.Fatal("the machine's own files are gone: ", err)
	}
}
