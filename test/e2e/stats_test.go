// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// withStats prepares an agent that collects host stats and publishes metrics.
func withStats(t *testing.T, telemetry string) *agent {
	t.Helper()
	a := newAgent(t)
	a.Plugin("stats-host", "exec "+harness.Bin()+"/drover-plugins stats-host")
	a.Configure("telemetry {\n" + telemetry + "\n}\n")
	return a.start()
}

// metrics returns the lines of the Prometheus text that contain all of the words.
func (a *agent) metrics(words ...string) []string {
	a.T.Helper()
	code, body := a.HTTPGet("/v1/metrics?format=prometheus")
	if code != 200 {
		a.T.Fatalf("metrics: %d %s", code, body)
	}
	var out []string
	for line := range strings.Lines(body) {
		fits := true
		for _, w := range words {
			fits = fits && strings.Contains(line, w)
		}
		if fits {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestALiveTaskHasStatsAndMetricsAndAnEndedOneHasNone(t *testing.T) {
	a := withStats(t, `publish_allocation_metrics = true
publish_node_metrics = true
prometheus_metrics = true
collection_interval = "200ms"`)
	a.Run(harness.Shell("busy", "service", 1, "", "while :; do :; done"))
	id := a.Await("busy", model.AllocClientStatusRunning, 1)[0].ID
	of := []string{`alloc_id="` + id + `"`, `job="busy"`, `task_group="g"`, `task="t"`, `namespace="default"`}
	a.Eventually(20*time.Second, "the task's metrics are told", func() bool {
		return len(a.metrics(append(of, "nomad_client_allocs_memory_rss{")...)) == 1 && len(a.metrics(append(of, "nomad_client_allocs_cpu_total_percent{")...)) == 1
	})
	for _, name := range []string{"nomad_client_host_cpu_total_percent{", "nomad_client_host_memory_total{", "nomad_client_host_disk_size{", "nomad_client_uptime{"} {
		if len(a.metrics(name, `node_id="`)) == 0 {
			t.Errorf("no metric %s", name)
		}
	}
	out := a.Must("alloc", "status", "-stats", id)
	if !strings.Contains(out, "RSS") || !strings.Contains(out, "Percent") {
		t.Errorf("alloc status -stats says\n%s", out)
	}
	for name, value := range map[string]string{"start": "1", "restart": "0", "oom_killed": "0", "complete": "0", "failed": "0", "running": "1"} {
		a.Eventually(harness.Patience, "the metric "+name+" is "+value, func() bool {
			got := a.metrics(append(of, "nomad_client_allocs_"+name+"{")...)
			return len(got) == 1 && strings.HasSuffix(got[0], " "+value)
		})
	}
	a.Must("job", "stop", "busy")
	a.Eventually(20*time.Second, "its measurements are gone, and that it has ended is counted", func() bool {
		done := a.metrics(append(of, "nomad_client_allocs_complete{")...)
		return len(a.metrics(append(of, "nomad_client_allocs_memory_rss{")...)) == 0 && len(done) == 1 && strings.HasSuffix(done[0], " 1")
	})
	a.Eventually(20*time.Second, "its series are gone with it", func() bool {
		a.Must("system", "gc") // collects everything that has ended by then
		return len(a.metrics(id)) == 0
	})
}

func TestTheMachinesStatsOutliveTheirCollector(t *testing.T) {
	a := withStats(t, `collection_interval = "200ms"`)
	type answer struct {
		Timestamp int64
		CPU       []struct{ CPU string }
		Memory    struct{ Total uint64 }
	}
	ask := func() (s answer, code int) {
		code, body := a.HTTPGet("/v1/client/stats")
		if code == 200 {
			if err := json.Unmarshal([]byte(body), &s); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
		}
		return s, code
	}
	first, code := ask()
	a.Eventually(20*time.Second, "the collector runs", func() bool {
		first, code = ask()
		return code == 200
	})
	if len(first.CPU) == 0 || first.Memory.Total == 0 || time.Since(time.Unix(0, first.Timestamp)) > time.Minute {
		t.Fatalf("%+v", first)
	}
	if out := a.Must("node", "status", "-self", "-stats"); !strings.Contains(out, "cpu0") {
		t.Errorf("node status -stats says\n%s", out)
	}
	pids := a.Processes("stats-host")
	if len(pids) != 1 {
		t.Fatalf("processes of stats-host: %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now().UnixNano()
	a.Eventually(20*time.Second, "the next process measures", func() bool {
		s, code := ask()
		if code != 200 || len(s.CPU) != len(first.CPU) {
			t.Fatalf("while it is away: %d %+v", code, s)
		}
		return s.Timestamp > killed
	})
	if code, body := a.HTTPGet("/v1/metrics?format=prometheus"); code != 415 {
		t.Errorf("metrics for Prometheus though they are off: %d %.200s", code, body)
	}
}
