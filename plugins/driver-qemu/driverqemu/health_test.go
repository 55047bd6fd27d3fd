// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestHostileADriverWhoseSupervisorAndKeeperHangIsUnhealthyUntilTheyAnswer(t *testing.T) {
	t.Setenv("DROVER_SUPERVISOR_HANG", "300ms")
	n := newNode(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := n.d.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthHealthy {
		t.Fatalf("before anything runs: %+v", f)
	}
	task := n.task(map[string]any{"image_path": n.disk("local/empty.img", 1<<20)})
	n.run(task)
	sup, err := supervisor.Open(ctx, filepath.Join(n.state, "driver-exec"))
	if err != nil {
		t.Fatal(err)
	}
	defer sup.Close()
	h, err := sup.Hello(ctx)
	if err != nil {
		t.Fatal(err)
	}
	both := func(s syscall.Signal) {
		for _, pid := range []int{h.Keeper, h.PID} {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	both(syscall.SIGSTOP)
	if f := <-prints; f.Health != driver.HealthUnhealthy || !strings.Contains(f.HealthDescription, "supervisor.log") {
		t.Errorf("while they hang: %+v", f)
	}
	both(syscall.SIGCONT)
	if f := <-prints; f.Health != driver.HealthHealthy {
		t.Errorf("when they answer: %+v", f)
	}
	if s, err := n.d.InspectTask(ctx, task.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("the task: %+v, %v", s, err)
	}
}
