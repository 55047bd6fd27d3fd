// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/internal/supervisor"
)

// BenchmarkHundredTasks starts and destroys 100 sleeping tasks. PSS-KB/task is the
// memory of supervisor and keeper per task.
func BenchmarkHundredTasks(b *testing.B) {
	ctx, root := context.Background(), b.TempDir()
	c, err := supervisor.Open(ctx, filepath.Join(root, "s"))
	if err != nil {
		b.Fatal(err)
	}
	const n = 100
	for b.Loop() {
		for i := range n {
			id := fmt.Sprintf("t%d", i)
			_, err := c.Start(ctx, supervisor.Spec{
				ID: id, Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: "/",
				Logs: supervisor.Logs{Root: root, Dir: ".", Stdout: id + ".stdout", Stderr: id + ".stderr", MaxFiles: 2, MaxFileBytes: 1 << 20},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		h, err := c.Hello(ctx)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(pss(b, h.PID)+pss(b, h.Keeper))/n, "PSS-KB/task")
		for i := range n {
			if err := c.Destroy(ctx, fmt.Sprintf("t%d", i), true); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	if err := c.Shutdown(ctx); err != nil {
		b.Fatal(err)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

func pss(b *testing.B, pid int) int {
	b.Helper()
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 1 && fields[0] == "Pss:" {
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("no Pss")
	return 0
}
