// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
)

// writerEnv makes this binary write to its output: "BYTES-PER-SECOND SECONDS".
const writerEnv = "SUPERVISOR_TEST_WRITER"

// paced is a task that writes at a constant rate.
func paced() {
	var rate, seconds int
	if _, err := fmt.Sscan(os.Getenv(writerEnv), &rate, &seconds); err != nil {
		panic(err)
	}
	chunk := make([]byte, 32<<10)
	tick := time.NewTicker(time.Millisecond)
	begin := time.Now()
	for written, total := 0, rate*seconds; written < total; <-tick.C {
		due := min(int(time.Since(begin).Seconds()*float64(rate)), total)
		for written < due {
			n, err := os.Stdout.Write(chunk[:min(len(chunk), due-written)])
			if err != nil {
				panic(err)
			}
			written += n
		}
	}
}

const (
	writers     = 4
	writerRate  = 50_000_000
	writerLasts = 20 // seconds
)

func writerEnviron() []string {
	return []string{fmt.Sprintf("%s=%d %d", writerEnv, writerRate, writerLasts), "GOMAXPROCS=1"}
}

// cpu returns the CPU seconds of a process.
func cpu(tb testing.TB, pid int) float64 {
	tb.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		tb.Fatal(err)
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	total := 0.0
	for _, field := range f[11:13] { // utime, stime
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			tb.Fatal(err)
		}
		total += ticks / 100
	}
	return total
}

// BenchmarkLogsOfFourFastTasks runs four tasks that write 50 MB/s each for five
// seconds through the supervisor. CPU-s is the supervisor's CPU time, lost-B the
// number of bytes that are missing in the files.
func BenchmarkLogsOfFourFastTasks(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ctx, root := context.Background(), b.TempDir()
		c, err := supervisor.Open(ctx, filepath.Join(root, "s"))
		if err != nil {
			b.Fatal(err)
		}
		h, err := c.Hello(ctx)
		if err != nil {
			b.Fatal(err)
		}
		before := cpu(b, h.PID)
		for i := range writers {
			id := fmt.Sprintf("w%d", i)
			_, err := c.Start(ctx, supervisor.Spec{
				ID: id, Path: exe, Args: []string{"writer"}, Env: writerEnviron(), Dir: "/",
				Logs: supervisor.Logs{Root: root, Dir: ".", Stdout: id + ".stdout", Stderr: id + ".stderr", MaxFiles: 1000, MaxFileBytes: 10 << 20},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		for i := range writers {
			id := fmt.Sprintf("w%d", i)
			if s, err := c.Wait(ctx, id); err != nil || s.Exit.Code != 0 {
				b.Fatalf("%+v, %v", s, err)
			}
		}
		b.ReportMetric(cpu(b, h.PID)-before, "CPU-s")
		b.ReportMetric(float64(writers*writerRate*writerLasts-size(b, root, "w*.stdout.*")), "lost-B")
		for i := range writers {
			err = errors.Join(err, c.Destroy(ctx, fmt.Sprintf("w%d", i), true))
		}
		if err := errors.Join(err, c.Shutdown(ctx), c.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLogsByAProcessPerTask measures the alternative for comparison: a process
// per task copies its output from a pipe to a file.
func BenchmarkLogsByAProcessPerTask(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		root := b.TempDir()
		var tasks, copiers []*exec.Cmd
		for i := range writers {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			task, copier := exec.Command(exe), exec.Command("cp", "/dev/stdin", filepath.Join(root, fmt.Sprintf("w%d.stdout.0", i)))
			task.Env, task.Stdout, copier.Stdin = writerEnviron(), w, r
			if err := errors.Join(copier.Start(), task.Start(), r.Close(), w.Close()); err != nil {
				b.Fatal(err)
			}
			tasks, copiers = append(tasks, task), append(copiers, copier)
		}
		used := time.Duration(0)
		for i := range tasks {
			if err := errors.Join(tasks[i].Wait(), copiers[i].Wait()); err != nil {
				b.Fatal(err)
			}
			used += copiers[i].ProcessState.UserTime() + copiers[i].ProcessState.SystemTime()
		}
		b.ReportMetric(used.Seconds(), "CPU-s")
		b.ReportMetric(float64(writers*writerRate*writerLasts-size(b, root, "w*.stdout.*")), "lost-B")
	}
}

func size(tb testing.TB, dir, pattern string) int {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		tb.Fatal(err)
	}
	total := 0
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			tb.Fatal(err)
		}
		total += int(st.Size())
	}
	return total
}
