// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
)

// rolledOut is an alloc of a deployment with a check.
func rolledOut(health string, check *model.ServiceCheck) *model.Allocation {
	a := newAlloc(newTask("web"))
	g := a.Job.TaskGroups[0]
	a.DeploymentID = "d1"
	g.Update = &model.UpdateStrategy{MaxParallel: 1, HealthCheck: health, MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}
	g.Services = []*model.Service{{Name: "http", Provider: "nomad", PortLabel: "http", Checks: []*model.ServiceCheck{check}}}
	a.AllocatedResources = &model.AllocatedResources{
		Tasks:  map[string]*model.AllocatedTaskResources{"web": {}},
		Shared: model.AllocatedSharedResources{Ports: []model.AllocatedPortMapping{{Label: "http", Value: 8080, HostIP: "10.0.0.1"}}},
	}
	return a
}

func TestChecksDecideWhetherAnAllocIsHealthy(t *testing.T) {
	tcp := &model.ServiceCheck{Type: "tcp", Interval: 5 * time.Second, Timeout: time.Second}
	for name, c := range map[string]struct {
		alloc  *model.Allocation
		passes time.Duration // since the start; negative is never
		at     time.Duration // when the verdict is there at the latest
		want   bool
	}{
		"that pass at once":          {rolledOut("checks", tcp), 0, 11 * time.Second, true},
		"that pass later":            {rolledOut("checks", tcp), 22 * time.Second, 30 * time.Second, true},
		"that never pass":            {rolledOut("checks", tcp), -1, 61 * time.Second, false},
		"that nobody runs":           {rolledOut("checks", &model.ServiceCheck{Type: "grpc"}), 0, 61 * time.Second, false},
		"of a port that is not here": {rolledOut("checks", &model.ServiceCheck{Type: "tcp", PortLabel: "admin"}), 0, 61 * time.Second, false},
		"that nobody asks for":       {rolledOut("task_states", tcp), -1, 11 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				begin := time.Now()
				b.cfg.Probe = func(_ context.Context, p alloc.Probe) error {
					if p.Address != "10.0.0.1:8080" {
						t.Errorf("asked %s", p.Address)
					}
					if c.passes >= 0 && time.Since(begin) >= c.passes {
						return nil
					}
					return errors.New("refused")
				}
				b.run(c.alloc)
				time.Sleep(9 * time.Second)
				synctest.Wait()
				if s := b.r.View().DeploymentStatus; s != nil && s.Healthy != nil {
					t.Fatalf("decided before min_healthy_time: %t", *s.Healthy)
				}
				time.Sleep(c.at - 9*time.Second)
				synctest.Wait()
				s := b.r.View().DeploymentStatus
				if s == nil || s.Healthy == nil || *s.Healthy != c.want {
					t.Fatalf("health is %+v, want %t", s, c.want)
				}
			})
		})
	}
}

func TestAProbeAsksAsTheCheckSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != "/health" || r.Header.Get("X-A") != "b" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	good := &model.ServiceCheck{Type: "http", Path: "/health", Method: "POST", Header: map[string][]string{"X-A": {"b"}}, Timeout: 5 * time.Second}
	if err := (alloc.Probe{Check: good, Address: at}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (alloc.Probe{Check: &model.ServiceCheck{Type: "http", Path: "/"}, Address: at}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("an answer that is no success: %v", err)
	}
	if err := (alloc.Probe{Check: &model.ServiceCheck{Type: "tcp"}, Address: at}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := (alloc.Probe{Check: &model.ServiceCheck{Type: "tcp"}, Address: l.Addr().String()}).Run(t.Context()); err == nil {
		t.Error("nobody listens, and the check passes")
	}
}
