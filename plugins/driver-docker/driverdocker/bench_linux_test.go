// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

const (
	benchTasks  = 100
	benchAtOnce = 8
)

// atOnce calls do n times with limited concurrency.
func atOnce(b *testing.B, n int, do func(i int) error) {
	b.Helper()
	slots := make(chan struct{}, benchAtOnce)
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			errs <- do(i)
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
}

// pss returns the proportional set size of a process in KiB.
func pss(b *testing.B, pid int) (kib int) {
	b.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.SplitSeq(string(body), "\n") {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				b.Fatal(err)
			}
		}
	}
	return kib
}

// BenchmarkHundredContainers starts the same containers with a plugin process
// and with a loop of docker run.
func BenchmarkHundredContainers(b *testing.B) {
	docker := dockerd(b)
	b.Run("docker run", func(b *testing.B) {
		for range b.N {
			names := make([]string, benchTasks)
			atOnce(b, benchTasks, func(i int) error {
				names[i] = fmt.Sprintf("bench-%d", i)
				_, err := docker.CLI("run", "-d", "--init", "--memory", "64m", "--name", names[i], "-v", "/tmp:/a", "-v", "/tmp:/b", "-v", "/tmp:/c", dockertest.BusyBox, "/bin/sh", "-c", "sleep 600")
				return err
			})
			b.StopTimer()
			if _, err := docker.CLI(append([]string{"rm", "-f"}, names...)...); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("driver", func(b *testing.B) { benchDriver(b, docker) })
}

func benchDriver(b *testing.B, docker *dockertest.Daemon) {
	binary := filepath.Join(b.TempDir(), "driver-docker")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/drover-project/drover/plugins/driver-docker").CombinedOutput(); err != nil {
		b.Fatalf("build: %s", out)
	}
	cmd := exec.Command(binary)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), plugin.StateDirEnv + "=" + b.TempDir()}
	conn, die := plugintest.Launch(b, cmd)
	defer die()
	drivers, err := driver.Connect(b.Context(), conn)
	if err != nil {
		b.Fatal(err)
	}
	d, info := drivers[0], drivers[0].Info()
	full, err := info.ConfigSchema.Apply(map[string]any{"endpoint": docker.Endpoint()})
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		b.Fatal(err)
	}
	if err := d.SetConfig(b.Context(), body); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		b.StopTimer()
		tasks := make([]*driver.TaskConfig, benchTasks)
		for i := range tasks {
			tasks[i] = newTask(b, d, script("sleep 600"))
		}
		before := pss(b, cmd.Process.Pid)
		b.StartTimer()
		atOnce(b, benchTasks, func(i int) error {
			_, _, err := d.StartTask(b.Context(), tasks[i])
			return err
		})
		b.StopTimer()
		b.ReportMetric(float64(pss(b, cmd.Process.Pid)-before)/benchTasks, "KiB-PSS/task")
		b.ReportMetric(float64(before), "KiB-PSS-idle")
		atOnce(b, benchTasks, func(i int) error { return d.DestroyTask(context.Background(), tasks[i].Ref(), true) })
		b.StartTimer()
	}
}

// BenchmarkWhatAContainerKeeps measures the memory of the driver's process per
// running container, with and without a stats listener.
func BenchmarkWhatAContainerKeeps(b *testing.B) {
	n := newNode(b, nil)
	for range b.N {
		tasks := make([]*driver.TaskConfig, benchTasks)
		for i := range tasks {
			tasks[i] = n.task(script("sleep 600"))
		}
		idle := kept()
		atOnce(b, benchTasks, func(i int) error {
			_, _, err := n.d.StartTask(b.Context(), tasks[i])
			return err
		})
		report(b, "", idle, kept())
		ctx, cancel := context.WithCancel(b.Context())
		samples, err := n.d.TaskStats(ctx, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		for len(<-samples) < benchTasks {
		}
		report(b, "-with-stats", idle, kept())
		if path := os.Getenv("DROVER_HEAP_PROFILE"); path != "" {
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close()); err != nil {
				b.Fatal(err)
			}
		}
		cancel()
		for range samples {
		}
		atOnce(b, benchTasks, func(i int) error { return n.d.DestroyTask(context.Background(), tasks[i].Ref(), true) })
	}
}

type keeps struct {
	runtime.MemStats
	goroutines int
}

func kept() (k keeps) {
	for range 3 { // objects with finalizers are freed in the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&k.MemStats)
	k.goroutines = runtime.NumGoroutine()
	return k
}

func report(b *testing.B, suffix string, idle, now keeps) {
	b.Helper()
	b.ReportMetric(float64(int64(now.HeapAlloc)-int64(idle.HeapAlloc))/benchTasks, "heap-B/task"+suffix)
	b.ReportMetric(float64(int64(now.StackInuse)-int64(idle.StackInuse))/benchTasks, "stack-B/task"+suffix)
	b.ReportMetric(float64(now.goroutines-idle.goroutines)/benchTasks, "goroutines/task"+suffix)
}
