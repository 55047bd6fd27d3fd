// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// BenchmarkPlugins measures the cost of separate plugin processes: the start of a
// plugin, a call, a second process, and 1,000 calls per second, with the binaries in
// DROVER_BENCH_BIN. bench/plugins.sh runs it.
func BenchmarkPlugins(b *testing.B) {
	bin := binariesOf(b)
	b.Run("start", func(b *testing.B) { benchmarkPluginStart(b, bin) })
	shell := callee{driver: "shell", plugin: "driver-shell", binary: buildShellDriver(b), config: `{"script":"sleep 600"}`}
	exec := callee{driver: "raw_exec", plugin: "driver-exec", binary: filepath.Join(bin, "drover-plugins"), config: `{"command":"/bin/sleep","args":["600"]}`}
	b.Run("call", func(b *testing.B) { benchmarkAsk(b, bin) })
	b.Run("call-driver", func(b *testing.B) { benchmarkInspect(b, shell) })
	b.Run("call-supervisor", func(b *testing.B) { benchmarkInspect(b, exec) })
	b.Run("thousand-a-second", func(b *testing.B) { benchmarkAsks(b, bin) })
	b.Run("thousand-a-second-driver", func(b *testing.B) { benchmarkInspects(b, shell) })
	b.Run("thousand-a-second-supervisor", func(b *testing.B) { benchmarkInspects(b, exec) })
	b.Run("second-process", func(b *testing.B) { benchmarkSecondProcess(b, bin) })
}

// multiCall are the plugins that share one binary.
var multiCall = []string{"driver-exec", "driver-qemu", "stats-host"}

func pluginCommand(b *testing.B, bin, name string) *exec.Cmd {
	b.Helper()
	path := filepath.Join(bin, "plugins", name)
	if _, err := os.Stat(path); err != nil {
		b.Skipf("no plugin %s", name)
	}
	cmd := exec.Command(path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), plugin.StateDirEnv + "=" + b.TempDir()}
	return cmd
}

// benchmarkPluginStart measures the time from exec to the end of the handshake.
func benchmarkPluginStart(b *testing.B, bin string) {
	for _, name := range append([]string{"driver-docker"}, multiCall...) {
		b.Run(name, func(b *testing.B) {
			var took []float64
			for b.Loop() {
				start := time.Now()
				_, die := plugintest.Launch(b, pluginCommand(b, bin, name))
				took = append(took, ms(time.Since(start)))
				die()
			}
			quantiles(b, took, "ms")
		})
	}
}

// quantiles reports quantiles of the measured times instead of the time of an
// iteration.
func quantiles(b *testing.B, v []float64, unit string) {
	slices.Sort(v)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(v[len(v)/2], "p50-"+unit)
	b.ReportMetric(v[len(v)*99/100], "p99-"+unit)
	b.ReportMetric(v[len(v)-1], "max-"+unit)
}

// callee is the driver to call: the driver of the SDK's tests, which inspects the
// process and a file, or raw_exec, which asks its supervisor, a second process.
type callee struct{ driver, plugin, binary, config string }

func buildShellDriver(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "driver-shell")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "../test/e2e/harness/testdata/shellplugin").CombinedOutput(); err != nil {
		b.Fatalf("build the shell driver: %v: %s", err, out)
	}
	return path
}

// start returns a host that runs only the callee's plugin.
func (c callee) start(b *testing.B) (*pluginhost.Host, pluginhost.PluginStatus) {
	b.Helper()
	dir := b.TempDir()
	if err := os.Symlink(c.binary, filepath.Join(dir, c.plugin)); err != nil {
		b.Fatal(err)
	}
	h, err := pluginhost.New(pluginhost.Config{
		Dir: dir, StateDir: b.TempDir(), Env: []string{plugin.StateDirEnv + "=" + b.TempDir()},
		DriverConfig: map[string]map[string]any{"raw_exec": {"enabled": true}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close(false) })
	status := h.Status()
	if len(status) != 1 || status[0].State != pluginhost.StateRunning {
		b.Fatalf("the plugin is %+v", status)
	}
	return h, status[0]
}

// inspect returns the call that is measured. It uses the same path as the agent's
// calls and is little work for the plugin.
func (c callee) inspect(b *testing.B, h *pluginhost.Host) func() error {
	b.Helper()
	d, err := h.Driver(c.driver)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "alloc", "logs"), 0o755); err != nil {
		b.Fatal(err)
	}
	task := &driver.TaskConfig{
		ID: "bench/1", Name: "bench", AllocID: "bench", AllocDir: dir, TaskDir: dir, DriverConfig: []byte(c.config),
		Resources: driver.Resources{CPUMHz: 100, MemoryMB: 32},
		Logs: driver.LogConfig{
			StdoutPath: filepath.Join(dir, "alloc/logs/bench.stdout"), StderrPath: filepath.Join(dir, "alloc/logs/bench.stderr"), MaxFiles: 1, MaxFileSizeMB: 1,
		},
	}
	if _, _, err := d.StartTask(b.Context(), task); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.DestroyTask(context.Background(), task.Ref(), true) })
	return func() error {
		_, err := d.InspectTask(b.Context(), task.ID)
		return err
	}
}

// benchmarkAsk measures a call that the plugin answers without any work.
func benchmarkAsk(b *testing.B, bin string) {
	conn, _ := plugintest.Launch(b, pluginCommand(b, bin, "driver-exec"))
	benchmarkCall(b, func() error {
		_, err := plugin.Ask(b.Context(), conn)
		return err
	})
}

// benchmarkInspect measures a driver call through all layers of the host.
func benchmarkInspect(b *testing.B, c callee) {
	h, _ := c.start(b)
	benchmarkCall(b, c.inspect(b, h))
}

func benchmarkCall(b *testing.B, call func() error) {
	var took []float64
	for b.Loop() {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1000)
	}
	quantiles(b, took, "us")
}

func benchmarkAsks(b *testing.B, bin string) {
	cmd := pluginCommand(b, bin, "driver-exec")
	conn, _ := plugintest.Launch(b, cmd)
	benchmarkCalls(b, cmd.Process.Pid, func() error {
		_, err := plugin.Ask(b.Context(), conn)
		return err
	})
}

func benchmarkInspects(b *testing.B, c callee) {
	h, status := c.start(b)
	benchmarkCalls(b, status.PID, c.inspect(b, h))
}

// benchmarkCalls makes 1,000 calls per second for some seconds, evenly distributed.
// It reports the CPU time of both sides, and that of the same loop without calls,
// which is included in the host's.
func benchmarkCalls(b *testing.B, pid int, call func() error) {
	for b.Loop() {
		own, other := ownCPU(b), processCPU(pid)
		took := evenly(b, call)
		b.ReportMetric(5000/took, "calls/s")
		b.ReportMetric(100*(ownCPU(b)-own)/took, "host-cpu-%")
		b.ReportMetric(100*(processCPU(pid)-other)/took, "plugin-cpu-%")

		own = ownCPU(b)
		took = evenly(b, func() error { return nil })
		b.ReportMetric(100*(ownCPU(b)-own)/took, "loop-cpu-%")
	}
	b.ReportMetric(0, "ns/op")
}

// evenly calls call 5,000 times, once per millisecond or immediately if it is late,
// and returns the seconds that this took.
func evenly(b *testing.B, call func() error) float64 {
	start := time.Now()
	for n := range 5000 {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Millisecond)))
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start).Seconds()
}

func ownCPU(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// processCPU returns the CPU seconds of another process.
func processCPU(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return float64(user+system) / 100
}

// benchmarkSecondProcess measures the additional memory of another process of the
// same binary.
func benchmarkSecondProcess(b *testing.B, bin string) {
	for _, name := range multiCall[1:] {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				first := pluginCommand(b, bin, multiCall[0])
				_, die := plugintest.Launch(b, first)
				settle()
				alone := field(first.Process.Pid, "smaps_rollup", "Pss")
				second := pluginCommand(b, bin, name)
				_, dieToo := plugintest.Launch(b, second)
				settle()
				both := field(first.Process.Pid, "smaps_rollup", "Pss") + field(second.Process.Pid, "smaps_rollup", "Pss")
				b.ReportMetric(float64(alone)/1024, "first-MiB")
				b.ReportMetric(float64(both-alone)/1024, "second-MiB")
				dieToo()
				die()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDockerTasks runs 100 containers with an agent of the real binaries, and
// the same containers with a loop of docker run, with the same concurrency as the
// agent. bench/plugins.sh runs it.
func BenchmarkDockerTasks(b *testing.B) {
	const n, atOnce = 100, 32
	source := builtBinaries(b)
	daemon, err := dockertest.Start()
	if err != nil {
		b.Skipf("no Docker daemon: %v", err)
	}
	b.Cleanup(daemon.Remove)
	bin := copyBinaries(b, source)
	b.Run("docker-run", func(b *testing.B) {
		for b.Loop() {
			start := time.Now()
			names := runContainers(b, daemon, n, atOnce)
			b.ReportMetric(time.Since(start).Seconds(), "running-s")
			if out, err := daemon.CLI(append([]string{"rm", "-f"}, names...)...); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("drover", func(b *testing.B) {
		for b.Loop() {
			a := startAgentWith(b, bin, fmt.Sprintf("plugin \"docker\" {\n  config { endpoint = %q }\n}\n", daemon.Endpoint()))
			a.wait(b, "the docker driver", func() bool {
				var nodes []struct {
					Drivers map[string]struct{ Healthy bool }
				}
				return a.get("/v1/nodes", &nodes) == nil && len(nodes) == 1 && nodes[0].Drivers["docker"].Healthy
			})
			settle()
			idle := a.pss()
			took := a.runJob(b, "many", n, map[string]any{
				"Name": "sleep", "Driver": "docker",
				"Config":    map[string]any{"image": dockertest.BusyBox, "init": true, "command": "/bin/sh", "args": []string{"-c", "sleep 600"}},
				"Resources": map[string]any{"CPU": 2, "MemoryMB": 64}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
			}, false)
			settle()
			b.ReportMetric(took.Seconds(), "running-s")
			b.ReportMetric(float64(a.pss()-idle)/n/1024, "pss-KiB/task")
			a.stop()
		}
		b.ReportMetric(0, "ns/op")
	})
}

// runContainers starts containers like the agent's, with three mounts and an init
// each.
func runContainers(b *testing.B, daemon *dockertest.Daemon, n, atOnce int) []string {
	b.Helper()
	names := make([]string, n)
	slots, errs := make(chan struct{}, atOnce), make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		names[i] = fmt.Sprintf("bench-%d", i)
		slots <- struct{}{}
		wg.Go(func() {
			_, err := daemon.CLI("run", "-d", "--init", "--memory", "64m", "--name", names[i], "-v", "/tmp:/a", "-v", "/tmp:/b", "-v", "/tmp:/c",
				dockertest.BusyBox, "/bin/sh", "-c", "sleep 600")
			errs <- err
			<-slots
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return names
}
