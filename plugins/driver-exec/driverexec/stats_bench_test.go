// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/plugins/internal/supervisor"
)

// BenchmarkSample measures one sample of 1,000 sleeping tasks, including the list
// from the supervisor.
func BenchmarkSample(b *testing.B) {
	ctx, root := context.Background(), b.TempDir()
	c, err := supervisor.Open(ctx, filepath.Join(root, "s"))
	if err != nil {
		b.Fatal(err)
	}
	const n = 1000
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
	s := supervisor.NewSampler()
	for b.Loop() {
		list, err := c.List(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if got := len(s.Measure(list)); got != n {
			b.Fatalf("%d tasks measured", got)
		}
	}
	for i := range n {
		if err := c.Destroy(ctx, fmt.Sprintf("t%d", i), true); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Shutdown(ctx); err != nil {
		b.Fatal(err)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}
