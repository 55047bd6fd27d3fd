// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package compat_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

const servicesHCL = `
job "front" {
  datacenters = ["dc1"]
  group "app" {
    count = 2
    network {
      port "http" {}
    }
    service {
      name     = "front"
      provider = "nomad"
      port     = "http"
      tags     = ["traefik.enable=true", "traefik.http.routers.front.rule=Host(front.example)"]
      check {
        name      = "open"
        type      = "tcp"
        interval  = "1s"
        timeout   = "2s"
        on_update = "ignore"
      }
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
      identity {
        env = true
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// The subtests share one agent, because starting one takes longer than each of them.
func TestServicesChecksAndIdentitiesThroughTheReferencesClient(t *testing.T) {
	c := agent(t)
	job, err := c.Jobs().ParseHCL(servicesHCL, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	allocs := running(t, c, "front", 2)
	t.Run("services", func(t *testing.T) { servicesOf(t, c) })
	t.Run("checks", func(t *testing.T) { checksOf(t, c, allocs[0].ID) })
	t.Run("identities", func(t *testing.T) { identitiesOf(t, c, allocs[0].ID) })
	t.Run("as Traefik asks", func(t *testing.T) { asTraefik(t, c) })
}

func servicesOf(t *testing.T, c *api.Client) {
	list, meta, err := c.Services().List(&api.QueryOptions{Namespace: "*"})
	if err != nil || len(list) != 1 || len(list[0].Services) != 1 || list[0].Services[0].ServiceName != "front" || len(list[0].Services[0].Tags) != 2 {
		t.Fatalf("list: %+v, %v", list, err)
	}
	got, _, err := c.Services().Get("front", &api.QueryOptions{Params: map[string]string{"choose": "1|me"}})
	if err != nil || len(got) != 1 || got[0].Port == 0 || got[0].JobID != "front" || got[0].AllocID == "" {
		t.Fatalf("chosen: %+v, %v", got, err)
	}
	if _, err := c.Services().Delete("front", got[0].ID, nil); err != nil {
		t.Fatalf("delete: %v", err)
	}
	after, _, err := c.Services().Get("front", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
	if err != nil || len(after) != 1 || after[0].ID == got[0].ID {
		t.Fatalf("after the deletion: %+v, %v", after, err)
	}
	if none, _, err := c.Services().Get("nobody", nil); err != nil || len(none) != 0 {
		t.Errorf("a service that there is not: %+v, %v", none, err)
	}
}

func checksOf(t *testing.T, c *api.Client, alloc string) {
	eventually(t, "result of the check", func() error {
		all, err := c.Allocations().Checks(alloc, nil)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.Check == "open" && s.Service == "front" && s.Status == "failure" && s.Mode == "readiness" && s.Output != "" {
				return nil
			}
		}
		return fmt.Errorf("results: %+v", all)
	})
}

func identitiesOf(t *testing.T, c *api.Client, alloc string) {
	info, _, err := c.Allocations().Info(alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if id := info.Job.TaskGroups[0].Tasks[0].Identity; id == nil || id.Name != "default" || !id.Env || !slices.Equal(id.Audience, []string{"nomadproject.io"}) {
		t.Errorf("the identity of the task: %+v", id)
	}
	keys, _, err := c.Keyring().List(nil)
	if err != nil || len(keys) == 0 || keys[0].State != "active" {
		t.Errorf("keyring: %+v, %v", keys, err)
	}
	body, err := c.Raw().Response("/.well-known/jwks.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	var set struct {
		Keys []struct{ Kid, Use string }
	}
	if err != nil || json.Unmarshal(text, &set) != nil || len(set.Keys) == 0 || set.Keys[0].Use != "sig" || !strings.HasPrefix(set.Keys[0].Kid, keys[0].KeyID) {
		t.Errorf("keys of tokens: %s, %v", text, err)
	}
}

// asTraefik plays the requests of Traefik's provider "nomad": all services, each by its name,
// and the stream of events about services, on which it reads them again.
func asTraefik(t *testing.T, c *api.Client) {
	stale := &api.QueryOptions{AllowStale: true, Namespace: "default"}
	stubs, _, err := c.Services().List(stale)
	if err != nil || len(stubs) == 0 {
		t.Fatalf("list: %+v, %v", stubs, err)
	}
	for _, ns := range stubs {
		for _, s := range ns.Services {
			if !slices.Contains(s.Tags, "traefik.enable=true") {
				t.Errorf("tags of %s: %q", s.ServiceName, s.Tags)
			}
			instances, _, err := c.Services().Get(s.ServiceName, stale)
			if err != nil || len(instances) == 0 || instances[0].Address == "" {
				t.Errorf("instances of %s: %+v, %v", s.ServiceName, instances, err)
			}
		}
	}
	jobs, _, err := c.Jobs().List(stale) // with its option allowEmptyServices
	if err != nil || len(jobs) == 0 {
		t.Fatalf("jobs: %+v, %v", jobs, err)
	}
	job, _, err := c.Jobs().Info(jobs[0].ID, stale)
	if err != nil || job.TaskGroups[0].Services[0].Name != "front" {
		t.Errorf("job: %+v, %v", job, err)
	}
	stream, err := c.EventStream().Stream(t.Context(), map[api.Topic][]string{api.TopicService: {"*"}}, 0, stale)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Deregister("front", false, nil); err != nil {
		t.Fatal(err)
	}
	limit := time.After(time.Minute)
	for {
		select {
		case got, open := <-stream:
			if !open {
				t.Fatal("the stream of events has ended")
			}
			if got.Err != nil {
				t.Fatalf("the stream of events: %v", got.Err)
			}
			if slices.ContainsFunc(got.Events, func(e api.Event) bool { return e.Type == "ServiceDeregistration" }) {
				return
			}
		case <-limit:
			t.Fatal("no event of the end of a service within a minute")
		}
	}
}
