// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/internal/testkit"
)

// BenchmarkAgent measures a dev agent with the real binaries in the directory
// DROVER_BENCH_BIN: the time until it is ready, the cost of the idle agent with its
// plugin, supervisor and keeper, and the cost of tasks. bench/agent.sh builds the
// binaries and runs it. The binaries are copied to a private directory, so that the
// agent's processes can be recognized by their executable and share no memory pages
// with another agent.
func BenchmarkAgent(b *testing.B) {
	bin := binariesOf(b)
	b.Run("ready", func(b *testing.B) {
		var took []float64
		for b.Loop() {
			a := startAgent(b, bin)
			took = append(took, ms(a.ready))
			a.stop()
		}
		slices.Sort(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took[0], "min-ms")
		b.ReportMetric(took[len(took)/2], "median-ms")
		b.ReportMetric(took[len(took)-1], "max-ms")
	})
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			a := startAgent(b, bin)
			settle()
			a.reportUse(b, "fresh-")
			// Includes the supervisor and the keeper, which the first task starts.
			a.run(b, "first", 1, true)
			a.drop(b, "first")
			settle()
			a.reportUse(b, "")
			before, start := a.cpu(), time.Now()
			time.Sleep(10 * time.Second)
			b.ReportMetric(100*(a.cpu()-before)/time.Since(start).Seconds(), "cpu-%")
			a.stop()
		}
		b.ReportMetric(0, "ns/op")
	})
	for _, n := range []int{100, 500, 1000} {
		for name, update := range map[string]bool{"update": true, "noupdate": false} {
			b.Run(fmt.Sprintf("tasks-%d-%s", n, name), func(b *testing.B) { benchmarkTasks(b, bin, n, update) })
		}
	}
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("isolated-%d", n), func(b *testing.B) { benchmarkIsolated(b, bin, n) })
	}
}

// benchmarkIsolated runs n sleeps with the exec driver, one job after another on one
// agent.
func benchmarkIsolated(b *testing.B, bin string, n int) {
	if os.Getuid() != 0 {
		b.Skip("the exec driver needs root")
	}
	a := startAgent(b, bin)
	defer a.stop()
	a.runWith(b, "exec", "first", 1, true)
	a.drop(b, "first")
	var took []float64
	for b.Loop() {
		time.Sleep(500 * time.Millisecond) // let the reports of the previous job finish
		id := fmt.Sprint("isolated-", len(took))
		took = append(took, ms(a.runWith(b, "exec", id, n, true)))
		a.drop(b, id)
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "running-ms")
	b.ReportMetric(took[len(took)-1], "running-max-ms")
}

// benchmarkTasks runs n sleeps in one service job, on three agents one after
// another.
func benchmarkTasks(b *testing.B, bin string, n int, update bool) {
	var took, bytesPerTask []float64
	for b.Loop() {
		a := startAgent(b, bin)
		a.run(b, "first", 1, true)
		a.drop(b, "first")
		settle()
		idle := a.pss()
		took = append(took, ms(a.run(b, "many", n, update)))
		settle()
		bytesPerTask = append(bytesPerTask, float64(a.pss()-idle)/float64(n)/1024)
		a.reportUse(b, "")
		if tasks := a.tasks(); tasks != n {
			b.Fatalf("%d processes of tasks run, not %d", tasks, n)
		}
		before, start := a.cpu(), time.Now()
		time.Sleep(5 * time.Second)
		b.ReportMetric(100*(a.cpu()-before)/time.Since(start).Seconds(), "cpu-%")
		a.stop()
	}
	slices.Sort(took)
	slices.Sort(bytesPerTask)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "running-ms")
	b.ReportMetric(took[len(took)-1], "running-max-ms")
	b.ReportMetric(bytesPerTask[len(bytesPerTask)/2], "pss-KiB/task")
}

// settle waits until timers that follow a change have run, so that the agent is
// idle.
func settle() { time.Sleep(3 * time.Second) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// binariesOf returns a copy of the binaries in DROVER_BENCH_BIN.
func binariesOf(b *testing.B) string {
	b.Helper()
	return copyBinaries(b, builtBinaries(b))
}

// builtBinaries returns the directory DROVER_BENCH_BIN, which has the binaries of make build.
func builtBinaries(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("DROVER_BENCH_BIN")
	if dir == "" {
		b.Skip("DROVER_BENCH_BIN names no directory of binaries: run make build, and set it to the path of bin/")
	}
	return dir
}

// copyBinaries copies drover and its plugins. It copies the targets of links.
func copyBinaries(b *testing.B, source string) string {
	b.Helper()
	dir := b.TempDir()
	if out, err := exec.Command("cp", "-a", source+"/.", dir).CombinedOutput(); err != nil {
		b.Fatalf("copy the binaries: %v: %s", err, out)
	}
	return dir
}

// agent is a running dev agent.
type agent struct {
	bin, url string
	cmd      *exec.Cmd
	ready    time.Duration
}

func startAgent(b *testing.B, bin string) *agent {
	b.Helper()
	return startAgentWith(b, bin, "")
}

// startAgentWith starts an agent with additional configuration.
func startAgentWith(b *testing.B, bin, config string) *agent {
	b.Helper()
	return launch(b, bin, config, "-dev")
}

// launch starts an agent with additional flags and waits until its node is ready.
func launch(b *testing.B, bin, config string, flags ...string) *agent {
	b.Helper()
	dir := b.TempDir()
	ports := testkit.FreePorts(b, 3)
	conf := filepath.Join(dir, "ports.hcl")
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\nlog_level = \"WARN\"\n", ports[0], ports[1], ports[2]) + config
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	a := &agent{bin: bin, url: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	a.cmd = exec.Command(filepath.Join(bin, "drover"), append([]string{"agent", "-config", conf}, flags...)...)
	a.cmd.Stderr = os.Stderr
	start := time.Now()
	if err := a.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.stop)
	a.wait(b, "a ready node", func() bool {
		var nodes []struct{ Status string }
		return a.get("/v1/nodes", &nodes) == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	a.ready = time.Since(start)
	return a
}

// stop kills the agent and its tasks. Its supervisor ends some time later.
func (a *agent) stop() {
	if a.cmd.ProcessState != nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(30*time.Second, func() { _ = a.cmd.Process.Kill() })
	_ = a.cmd.Wait()
	kill.Stop()
	for _, pid := range a.pids() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // supervisor and keeper, which survive agents by design
	}
}

// wait polls continuously for a condition that a benchmark times.
func (a *agent) wait(b *testing.B, what string, done func() bool) {
	b.Helper()
	waitFor(b, time.Minute, 2*time.Millisecond, what, done)
}

// waitLong polls slowly for a condition that is not timed, so that polling costs
// little CPU.
func (a *agent) waitLong(b *testing.B, what string, done func() bool) {
	b.Helper()
	waitFor(b, 10*time.Minute, 200*time.Millisecond, what, done)
}

func waitFor(b *testing.B, limit, every time.Duration, what string, done func() bool) {
	b.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(every) {
		if time.Now().After(end) {
			b.Fatalf("waited %s for %s", limit, what)
		}
	}
}

func (a *agent) get(path string, out any) error {
	r, err := http.Get(a.url + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, r.Status)
	}
	return json.NewDecoder(r.Body).Decode(out)
}

// post sends a request.
func (a *agent) post(path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.Post(a.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s: %s: %s", path, r.Status, answer)
	}
	return err
}

// mustPost sends a request that must succeed.
func (a *agent) mustPost(b *testing.B, path string, body any) {
	b.Helper()
	if err := a.post(path, body); err != nil {
		b.Fatal(err)
	}
}

func (a *agent) summary(job string) map[string]int {
	var s struct{ Summary map[string]map[string]int }
	if a.get("/v1/job/"+job+"/summary", &s) != nil {
		return nil
	}
	return s.Summary["sleep"]
}

// run registers a service job of n sleeps and returns the time until all run.
func (a *agent) run(b *testing.B, id string, n int, update bool) time.Duration {
	b.Helper()
	return a.runWith(b, "raw_exec", id, n, update)
}

func (a *agent) runWith(b *testing.B, driver, id string, n int, update bool) time.Duration {
	b.Helper()
	return a.runJob(b, id, n, map[string]any{
		"Name": "sleep", "Driver": driver, "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}},
		"Resources": map[string]any{"CPU": 2, "MemoryMB": 10}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
	}, update)
}

// runJob registers a service job with n instances of the task, in a group "sleep".
func (a *agent) runJob(b *testing.B, id string, n int, task map[string]any, update bool) time.Duration {
	b.Helper()
	group := map[string]any{
		"Name": "sleep", "Count": n, "EphemeralDisk": map[string]any{"SizeMB": 10}, "Tasks": []any{task},
	}
	if !update {
		group["Update"] = map[string]any{"MaxParallel": 0}
	}
	job := map[string]any{"Job": map[string]any{"ID": id, "Name": id, "Type": "service", "Datacenters": []string{"*"}, "TaskGroups": []any{group}}}
	start := time.Now()
	a.mustPost(b, "/v1/jobs", job)
	a.wait(b, fmt.Sprintf("%d running tasks", n), func() bool { return a.summary(id)["Running"] == n })
	return time.Since(start)
}

// drop removes a job and waits until its tasks have ended.
func (a *agent) drop(b *testing.B, id string) {
	b.Helper()
	a.del(b, "/v1/job/"+id+"?purge=true")
	a.wait(b, "the end of "+id, func() bool { return a.tasks() == 0 })
}

// del sends a DELETE.
func (a *agent) del(b *testing.B, path string) {
	b.Helper()
	r, err := http.NewRequest(http.MethodDelete, a.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	answer.Body.Close()
}

// pids returns the processes of the agent and its helpers, found by their
// executable.
func (a *agent) pids() []int {
	var out []int
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, a.bin+"/") {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			out = append(out, pid)
		}
	}
	return out
}

// field reads a value from a file of /proc such as smaps_rollup or status.
func field(pid int, file, name string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// pss returns the memory of the agent and its helpers in bytes.
func (a *agent) pss() int {
	sum := 0
	for _, pid := range a.pids() {
		sum += field(pid, "smaps_rollup", "Pss") * 1024
	}
	return sum
}

// tasks counts the sleeps: children of helpers that are not helpers themselves.
func (a *agent) tasks() int {
	own, n := a.pids(), 0
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range files {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if !slices.Contains(own, pid) && slices.Contains(own, field(pid, "status", "PPid")) {
			n++
		}
	}
	return n
}

// cpu returns the CPU seconds that the agent and its helpers have used.
func (a *agent) cpu() float64 {
	sum := 0.0
	for _, pid := range a.pids() {
		sum += processCPU(pid)
	}
	return sum
}

// reportUse reports memory and, if the prefix is empty, processes, threads and
// goroutines.
func (a *agent) reportUse(b *testing.B, prefix string) {
	b.ReportMetric(float64(a.pss())/(1<<20), prefix+"pss-MiB")
	if prefix != "" {
		return
	}
	threads := 0
	for _, pid := range a.pids() {
		threads += field(pid, "status", "Threads")
		if os.Getenv("DROVER_BENCH_VERBOSE") != "" {
			cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			b.Logf("%.70s: Pss %d kB, anonymous %d kB, file %d kB, %d threads", bytes.ReplaceAll(cmd, []byte{0}, []byte{' '}),
				field(pid, "smaps_rollup", "Pss"), field(pid, "smaps_rollup", "Pss_Anon"), field(pid, "smaps_rollup", "Pss_File"), field(pid, "status", "Threads"))
		}
	}
	var self struct {
		Stats map[string]map[string]string `json:"stats"`
	}
	if err := a.get("/v1/agent/self", &self); err != nil {
		b.Fatal(err)
	}
	goroutines, _ := strconv.Atoi(self.Stats["runtime"]["goroutines"])
	b.ReportMetric(float64(len(a.pids())), "processes")
	b.ReportMetric(float64(threads), "threads")
	b.ReportMetric(float64(goroutines), "goroutines")
}
