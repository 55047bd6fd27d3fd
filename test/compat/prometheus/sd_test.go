// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package prometheus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/nomad"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

const job = `{"Job":{"ID":"web","Name":"web","Type":"service","Datacenters":["*"],"TaskGroups":[{"Name":"g","Count":2,
"Networks":[{"DynamicPorts":[{"Label":"http"}]}],
"Services":[{"Name":"web","PortLabel":"http","Provider":"nomad","Tags":["a","b"]}],
"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/sleep","args":["600"]},"Resources":{"CPU":20,"MemoryMB":16}}]}]}}`

// output collects the agent's output, to print it if a test fails.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// agent starts a dev agent with a job and returns its address.
func agent(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("DROVER_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "..", "bin", "drover")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("no drover at %s: run make build, or set DROVER_BIN", bin)
	}
	ports := freePorts(t)
	file := filepath.Join(t.TempDir(), "ports.hcl")
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n", ports[0], ports[1], ports[2])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	cmd := exec.Command(bin, "agent", "-dev", "-config", file)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Logf("the agent said:\n%s", out.b.String())
		}
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	eventually(t, "a healthy agent", func() bool { _, err := get(url + "/v1/agent/health"); return err == nil })
	resp, err := http.Post(url+"/v1/jobs", "application/json", strings.NewReader(job))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("register: %s", resp.Status)
	}
	return url
}

func freePorts(t *testing.T) (ports [3]int) {
	t.Helper()
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // closed at the end, so that each port is different
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}

func TestPrometheusFindsTheServicesThatRun(t *testing.T) {
	url := agent(t)
	conf := nomad.DefaultSDConfig
	conf.Server, conf.Namespace, conf.RefreshInterval = url, "default", model.Duration(200*time.Millisecond)
	conf.HTTPClientConfig = config.DefaultHTTPClientConfig
	registry := prometheus.NewRegistry()
	metrics := conf.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	d, err := conf.NewDiscoverer(discovery.DiscovererOptions{Logger: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups := make(chan []*targetgroup.Group)
	go d.Run(ctx, groups)
	for {
		select {
		case <-ctx.Done():
			t.Fatal("the two instances were not found within a minute")
		case found := <-groups:
			var addresses []string
			for _, g := range found {
				for _, labels := range g.Targets {
					if labels["__meta_nomad_service"] != "web" || labels["__meta_nomad_tags"] != ",a,b," || labels["__meta_nomad_dc"] != "dc1" {
						t.Fatalf("labels %v", labels)
					}
					addresses = append(addresses, string(labels[model.AddressLabel]))
				}
			}
			if len(addresses) == 2 && addresses[0] != addresses[1] {
				return
			}
		}
	}
}

func TestPrometheusReadsTheMetrics(t *testing.T) {
	url := agent(t)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	eventually(t, "job summary of two running allocs among the metrics", func() bool {
		body, err := get(url + "/v1/metrics?format=prometheus")
		if err != nil {
			t.Fatal(err)
		}
		families, err := parser.TextToMetricFamilies(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%v in\n%s", err, body)
		}
		if families["nomad_runtime_num_goroutines"] == nil || families["nomad_client_host_memory_total"] == nil || families["nomad_raft_commitTime"] == nil {
			return false // the first host sample may not be there yet
		}
		for _, m := range families["nomad_nomad_job_summary_running"].GetMetric() {
			if m.GetGauge().GetValue() == 2 {
				return true
			}
		}
		return false
	})
}
