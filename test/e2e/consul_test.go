// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/plugins/consul/consultest"
	"github.com/drover-project/drover/test/e2e/harness"
)

const consulJob = `
job "shop" {
  group "web" {
    network {
      port "http" {}
    }
    service {
      name     = "shop-web"
      port     = "http"
      tags     = ["TAG", "${NOMAD_ALLOC_INDEX}"]
      meta     { job = "${NOMAD_JOB_NAME}" }
      tagged_addresses { wan = "192.0.2.7:99" }
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
        on_update = "ignore"
      }
      check {
        type     = "script"
        task     = "t"
        command  = "/bin/sh"
        args     = ["-c", "echo careful; exit 1"]
        interval = "1s"
        timeout  = "5s"
        on_update = "ignore"
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`

func TestServicesOfProviderConsulAreRegisteredThere(t *testing.T) {
	server := consultest.New()
	server.Token = "secret"
	if err := server.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	address := server.Address()
	a := newAgent(t)
	a.Plugin("consul", fmt.Sprintf("exec %s consul", filepath.Join(harness.Bin(), "drover-plugins")))
	a.Configure(fmt.Sprintf("consul {\n  address = %q\n  token = \"secret\"\n}\n", address))
	a.start()

	web := func() []*api.AgentServiceRegistration { return server.Named("shop-web") }
	tagged := func(tag string) func() bool {
		return func() bool { all := web(); return len(all) == 1 && slices.Contains(all[0].Tags, tag) }
	}
	a.Eventually(time.Minute, "the node itself is registered", func() bool { return len(server.Named("nomad-client")) == 1 })
	a.Run(strings.Replace(consulJob, "TAG", "blue", 1))
	alloc := a.Await("shop", "running", 1)[0].ID
	a.Eventually(time.Minute, "the service is registered", tagged("blue"))
	one := web()[0]
	if one.Port == 0 || one.Meta["job"] != "shop" || one.TaggedAddresses["wan"].Port != 99 || len(one.Checks) != 2 || one.Checks[0].TCP == "" || one.Checks[1].TTL == "" {
		t.Errorf("registered: %+v", one)
	}
	a.Eventually(time.Minute, "the result of the script is known", func() bool {
		for _, c := range server.Checks(one.ID) {
			if c.Status == api.HealthWarning && strings.Contains(c.Output, "careful") {
				return true
			}
		}
		return false
	})

	a.Run(strings.Replace(consulJob, "TAG", "green", 1))
	a.Eventually(time.Minute, "an update in place changes the tags", tagged("green"))
	if now := a.Await("shop", "running", 1)[0].ID; now != alloc {
		t.Errorf("the update in place has replaced alloc %s by %s", alloc, now)
	}

	a.Kill()
	if !tagged("green")() {
		t.Error("the service is gone with the agent, though its task runs")
	}
	before := server.Registrations()
	a.Start()
	a.Must("job", "stop", "-detach", "shop")
	a.Eventually(time.Minute, "the service is removed when its alloc ends", func() bool { return len(web()) == 0 })
	if n := server.Registrations() - before; n > 1 { // the agent itself may have another address
		t.Errorf("%d services were registered again though nothing had changed", n)
	}

	a.Run(strings.Replace(consulJob, "TAG", "red", 1))
	a.Eventually(time.Minute, "a new alloc is registered", tagged("red"))
	server.Close()
	server.Forget()
	if err := server.Listen(address); err != nil {
		t.Fatal(err)
	}
	a.Eventually(2*time.Minute, "the service is registered again after Consul has lost everything", tagged("red"))
	a.Kill()
	a.KillAll()
	a.Start()
	a.Eventually(2*time.Minute, "one instance is left after agent and tasks were killed", func() bool { return len(web()) <= 1 })
}

func TestJobsWithConnectAreRefused(t *testing.T) {
	a := newAgent(t).start()
	for _, block := range []string{"sidecar_service {}", "native = true", "gateway {\n mesh {}\n }"} {
		file := a.Write("connect.hcl", 0o600, strings.Replace(consulJob, "port     = \"http\"\n", "port     = \"http\"\n connect {\n "+block+"\n }\n", 1))
		if out, code := a.CLI("job", "plan", file); code != 255 || !strings.Contains(out, "connect (sidecar_service") {
			t.Errorf("%s: exit code %d: %s", block, code, out)
		}
	}
}

// forks is a job whose script check forks without end, also into sessions of their own.
const forks = `job "forks-%[1]s" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name = "forking"
      port = "http"
      check {
        type      = "script"
        task      = "t"
        command   = "/bin/sh"
        args      = ["-c", "while :; do sleep %[2]d & setsid sleep %[2]d & (setsid sh -c 'sleep %[2]d; :' &); sleep 0.05; done"]
        interval  = "1s"
        timeout   = "1s"
        on_update = "ignore"
      }
    }
    task "t" {
      driver = "%[1]s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 100
      }
    }
  }
}
`

func TestHostileAScriptCheckThatForksWithoutEndIsBoundedAndGone(t *testing.T) {
	server := consultest.New()
	if err := server.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	a := newAgent(t)
	a.Plugin("consul", fmt.Sprintf("exec %s consul", filepath.Join(harness.Bin(), "drover-plugins")))
	a.Configure(fmt.Sprintf("consul {\n  address = %q\n}\n", server.Address()))
	a.start()
	const number = 731973
	processes := func() int { return len(a.Processes(fmt.Sprint("sleep ", number))) }
	for _, driver := range []string{"raw_exec", "exec"} {
		id := "forks-" + driver
		a.Run(fmt.Sprintf(forks, driver, number))
		alloc := a.Await(id, "running", 1)[0].ID
		for round := range 3 {
			var said map[string]struct{ Status, Output string }
			a.Eventually(time.Minute, "the check fails at its timeout", func() bool {
				code, body := a.HTTPGet("/v1/client/allocation/" + alloc + "/checks")
				if code != 200 || json.Unmarshal([]byte(body), &said) != nil || len(said) != 1 {
					return false
				}
				for _, c := range said {
					return c.Status == "failure" && strings.Contains(c.Output, "no answer within the timeout of 1s")
				}
				return false
			})
			if n := processes(); n > 200 { // some 60 are started in a second
				t.Errorf("%s, round %d: %d processes of the check", driver, round, n)
			}
			a.Eventually(time.Minute, "its processes are gone between two rounds", func() bool { return processes() == 0 })
		}
		a.Must("job", "stop", "-detach", id)
		a.Await(id, "complete", 1)
		a.Eventually(time.Minute, "nothing is left of the check", func() bool { return processes() == 0 })
	}
}
