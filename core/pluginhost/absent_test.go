// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// flags has a plugin's flag and notes; see the plugin's bad.go.
type flags struct{ flag, notes string }

func withFlags(t *testing.T, cfg *pluginhost.Config) flags {
	t.Helper()
	dir := t.TempDir()
	f := flags{flag: filepath.Join(dir, "flag"), notes: filepath.Join(dir, "notes")}
	cfg.Env = []string{"TESTPLUGIN_FLAG=" + f.flag, "TESTPLUGIN_NOTES=" + f.notes}
	return f
}

func (f flags) raise(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(f.flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f flags) lower(t *testing.T) {
	t.Helper()
	if err := os.Remove(f.flag); err != nil {
		t.Fatal(err)
	}
}

// count is how often a plugin has noted something.
func (f flags) count(what string) int {
	body, _ := os.ReadFile(f.notes) // none is none yet
	return strings.Count(string(body), what)
}

func undetected(st pluginhost.PluginStatus) bool {
	return st.State == pluginhost.StateUndetected && st.PID == 0
}

func TestAPluginWhoseDaemonIsAbsentIsNotKeptRunningAndLooksAgain(t *testing.T) {
	cfg := config(t, "absent")
	cfg.AbsentInterval = 300 * time.Millisecond
	f := withFlags(t, &cfg)
	h := start(t, cfg)
	await(t, h, "its rest", undetected)
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Health != driver.HealthUndetected || prints[0].HealthDescription != "the flag is not there" {
		t.Fatalf("fingerprints %+v", prints)
	}
	seen := map[driver.Health]bool{}
	eventually(t, "three looks", func() bool {
		prints, _ := h.Fingerprints()
		seen[prints[0].Health] = true
		st := only(t, h)
		if st.State != pluginhost.StateUndetected || st.Restarts != 0 || st.LastError != nil {
			t.Fatalf("a look is news: %+v", st)
		}
		return f.count("look") >= 3
	})
	if len(seen) != 1 {
		t.Errorf("its health changed with each look: %v", seen)
	}
	f.raise(t)
	st := await(t, h, "it is there", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning })
	eventually(t, "the driver is healthy", func() bool {
		prints, _ := h.Fingerprints()
		return prints[0].Health == driver.HealthHealthy
	})
	f.lower(t)
	await(t, h, "its rest once the daemon has been gone for a while", undetected)
	eventually(t, "the process is gone", func() bool { return errors.Is(syscall.Kill(st.PID, 0), syscall.ESRCH) })
}

func TestARestingPluginIsStartedAtOnceForACall(t *testing.T) {
	cfg := config(t, "absent")
	cfg.AbsentInterval = time.Hour
	f := withFlags(t, &cfg)
	h := start(t, cfg)
	await(t, h, "its rest", undetected)
	d, err := h.Driver("absent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.InspectTask(t.Context(), "nobody"); !errdefs.IsNotFound(err) {
		t.Fatalf("the driver's own answer: %v", err)
	}
	// The call is let through before the host has looked whether the process is needed.
	await(t, h, "that it runs", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning })
	f.raise(t)
	startTask(t, d, "t1", "sleep 1000")
	f.lower(t)
	eventually(t, "the daemon is away", func() bool {
		prints, _ := h.Fingerprints()
		return prints[0].Health == driver.HealthUndetected
	})
	// It has a task, so it stays.
	if st := only(t, h); st.State != pluginhost.StateRunning || st.PID == 0 {
		t.Fatalf("status %+v", st)
	}
	if s, err := d.InspectTask(t.Context(), "t1"); err != nil || s.State != driver.TaskRunning {
		t.Fatalf("the task: %+v, %v", s, err)
	}
}

func resting(st pluginhost.PluginStatus) bool {
	return st.State == pluginhost.StateResting && st.PID == 0
}

func TestADriverThatIsStartedOnDemandRestsWhileItHasNoTasks(t *testing.T) {
	cfg := config(t, "on-demand")
	cfg.AbsentInterval, cfg.Pings.Interval = 200*time.Millisecond, 20*time.Millisecond
	h := start(t, cfg)
	await(t, h, "its rest", resting)
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Health != driver.HealthHealthy {
		t.Fatalf("while it rests its driver is %+v", prints)
	}
	d, err := h.Driver("on-demand")
	if err != nil {
		t.Fatal(err)
	}
	handle := startTask(t, d, "t1", "sleep 1000")
	pid := await(t, h, "it runs", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning && st.PID != 0 }).PID
	// It stays for its task, over more ticks and looks than it would take to rest.
	ended := make(chan struct{})
	go func() {
		_, _ = d.WaitTask(t.Context(), handle.TaskID) // its end is what counts
		close(ended)
	}()
	select {
	case <-time.After(3 * cfg.AbsentInterval):
	case <-ended:
		t.Fatal("the task has ended")
	}
	if st := only(t, h); st.PID != pid || st.Restarts != 0 {
		t.Fatalf("with a task it is %+v, was pid %d", st, pid)
	}
	if err := d.DestroyTask(t.Context(), driver.TaskRef{ID: "t1"}, true); err != nil {
		t.Fatal(err)
	}
	await(t, h, "its rest after the task", resting)
	eventually(t, "the process is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func TestManyCallsToARestingDriverAllSucceed(t *testing.T) {
	cfg := config(t, "on-demand")
	cfg.AbsentInterval, cfg.Pings.Interval = 2*time.Millisecond, time.Millisecond // it rests whenever it can
	h := start(t, cfg)
	await(t, h, "its rest", resting)
	d, err := h.Driver("on-demand")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := d.InspectTask(t.Context(), "nobody"); !errdefs.IsNotFound(err) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func TestAnOperatorsReloadHasARestingPluginLookAtOnce(t *testing.T) {
	cfg := config(t, "absent")
	cfg.AbsentInterval = time.Hour
	f := withFlags(t, &cfg)
	h := start(t, cfg)
	await(t, h, "its rest", undetected)
	f.raise(t)
	if err := h.Reload(t.Context(), "absent"); err != nil {
		t.Fatal(err)
	}
	await(t, h, "it runs", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning })
}
