// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Slow runs a drover command that may take long.
func (a *Agent) Slow(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := a.Command(ctx, args...).CombinedOutput()
	return string(out), err
}

// CountEvents counts the events of a job's tasks.
func (a *Agent) CountEvents(job string) (n int) {
	a.T.Helper()
	for _, x := range a.Allocs(job, "") {
		for _, s := range x.TaskStates {
			n += len(s.Events)
		}
	}
	return n
}

// SampleTimes collects the times of an alloc's stats samples until stop is closed.
func (a *Agent) SampleTimes(alloc string, stop <-chan struct{}) <-chan []int64 {
	out := make(chan []int64, 1)
	go func() {
		var times []int64
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				out <- times
				return
			case <-tick.C:
			}
			var usage struct{ Timestamp int64 }
			if _, err := a.Get(context.Background(), "/v1/client/allocation/"+alloc+"/stats", nil, &usage); err != nil {
				continue
			}
			if n := len(times); usage.Timestamp != 0 && (n == 0 || times[n-1] != usage.Timestamp) {
				times = append(times, usage.Timestamp)
			}
		}
	}()
	return out
}

// AmidUpgrade starts upgrades of a plugin between two versions until it observes
// both processes at once: a quick upgrade may be over too soon. The channel receives
// the command's output.
func (a *Agent) AmidUpgrade(plugin, one, two string) <-chan string {
	a.T.Helper()
	for range 10 {
		p, err := a.AgentPlugin(a.Context(), "", plugin)
		if err != nil {
			a.T.Fatal(err)
		}
		file := two
		if p.Version == "2.0.0" {
			file = one
		}
		said := make(chan string, 1)
		go func() {
			out, _ := a.Slow("plugin", "upgrade", plugin, file) // it may be killed
			said <- out
		}()
		both := func() bool { return len(a.PluginProcesses(plugin)) == 2 }
		a.Eventually(Patience, "the new process is there", func() bool { return both() || len(said) > 0 })
		if len(said) == 0 {
			return said
		}
		a.T.Logf("an upgrade was over before it was seen: %s", <-said)
		a.Eventually(Patience, "the process before has ended", func() bool { return !both() })
	}
	a.T.Fatal("no upgrade was seen in ten")
	return nil
}

// PluginProcesses returns the processes of a plugin. The supervisor, which has
// arguments, is excluded.
func (a *Agent) PluginProcesses(plugin string) (out []int) {
	for _, pid := range a.Processes(plugin) {
		args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.HasSuffix(string(args), "/"+plugin+"\x00") && strings.Count(string(args), "\x00") == 1 {
			out = append(out, pid)
		}
	}
	return out
}

// ShellPlugin builds a version of a small driver and returns its file.
func ShellPlugin(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver-shell-"+version)
	Build(t, path, "test/e2e/harness/testdata/shellplugin", "-ldflags", "-s -w -X main.version="+version)
	return path
}
