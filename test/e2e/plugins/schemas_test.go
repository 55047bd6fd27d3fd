// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/test/e2e/harness"
)

// threeDrivers returns an agent with raw_exec, with docker without a daemon, and
// with a driver built for Nomad. Its server knows the schemas of all three.
func threeDrivers(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t)
	hello := filepath.Join(a.Dir, "hello-plugin")
	harness.Build(t, hello, "core/pluginhost/testdata/nomadplugin")
	a.Plugin("nomad-hello", "exec "+hello)
	a.Plugin("driver-docker", "exec "+filepath.Join(harness.Bin(), "driver-docker"))
	a.Configure(fmt.Sprintf(`
plugin "docker" {
  config { endpoint = "unix://%s/no-daemon.sock" }
}
plugin "nomad-hello" {
  config { shell = "/bin/sh" }
}
`, a.Dir))
	a.start()
	for _, driver := range []string{"raw_exec", "docker", "hello"} {
		a.Eventually(20*time.Second, "the schema of "+driver+" is known", func() bool { return a.known(driver) == 1 })
	}
	return a
}

// known returns the number of schemas of a driver that the cluster stores.
func (a *agent) known(driver string) int {
	a.T.Helper()
	d, err := a.DriverSchemas(a.Context(), driver)
	if errdefs.IsNotFound(err) {
		return 0
	}
	if err != nil {
		a.T.Fatal(err)
	}
	return len(d.Schemas)
}

// badConfigs has a mistake in the config of each kind of driver, at lines that the
// test expects.
const badConfigs = `job "bad" {
  group "web" {
    task "shell" {
      driver = "raw_exec"
      config {
        comand = "sleep"
        args   = "60"
      }
    }
    task "container" {
      driver = "docker"
      config {
        image = "busybox"
        mount {
          type   = "bind"
          target = "/x"
          volume_options {
            no_copie = true
          }
        }
      }
    }
    task "foreign" {
      driver = "hello"
      config {
        script = "exit"
        dynamic "argz" {
          for_each = [1]
          content {
            a = argz.value
          }
        }
      }
    }
  }
}
`

var badConfigLines = []string{
	`Error: bad.nomad.hcl:5,7-13: Invalid config for driver "raw_exec"`,
	`task group "web" -> task "shell" -> config.command: required (program:`,
	`Error: bad.nomad.hcl:6,9-15: Invalid config for driver "raw_exec"`,
	`   6:         comand = "sleep"`,
	`task group "web" -> task "shell" -> config.comand: unknown attribute; did you mean`, // the line may be wrapped here
	`Error: bad.nomad.hcl:7,9-13: Invalid config for driver "raw_exec"`,
	`Error: bad.nomad.hcl:18,13-21: Invalid config for driver "docker"`,
	`  18:             no_copie = true`,
	`Error: bad.nomad.hcl:27,9-23: Invalid config for driver "hello"`,
}

func TestABadConfigBlockIsRefusedWithItsLineForEveryKindOfDriver(t *testing.T) {
	a := threeDrivers(t)
	path := a.Write("bad.nomad.hcl", 0o600, badConfigs)
	for _, c := range []struct {
		code int
		args []string
	}{{1, []string{"job", "validate", path}}, {255, []string{"job", "plan", path}}, {1, []string{"job", "run", path}}} {
		out, code := a.CLI(c.args...)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		for _, want := range badConfigLines {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", c.args, want, out)
			}
		}
	}
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: badConfigs})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: draft}); err == nil || !strings.Contains(err.Error(), `config.comand: unknown attribute; did you mean "command"?`) {
		t.Errorf("over HTTP: %v", err)
	}
	if _, _, err := a.Job(a.Context(), "bad", nil); !errdefs.IsNotFound(err) {
		t.Errorf("the job is registered: %v", err)
	}
}

func TestWhatADriverWillIgnoreIsAWarningWithItsLine(t *testing.T) {
	a := threeDrivers(t)
	path := a.Write("ignored.nomad.hcl", 0o600, `job "ignored" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "true"
      }
      resources {
        cpu        = 50
        memory     = 16
        memory_max = 32
      }
    }
  }
}
`)
	const want = `ignored.nomad.hcl:12,9-19: task group "g" -> task "t" -> resources.memory_max: driver "raw_exec" does not act on it`
	for _, args := range [][]string{{"job", "validate", path}, {"job", "plan", path}, {"job", "run", "-detach", path}} {
		if out, _ := a.CLI(args...); !strings.Contains(out, want) {
			t.Errorf("%v does not warn:\n%s", args, out)
		}
	}
	a.Await("ignored", "complete", 1) // a warning does not prevent the job from running
}

func TestADriverIsKnownOverRestartsAndAfterItsLastNodeUntilItIsCollected(t *testing.T) {
	a := threeDrivers(t)
	path := a.Write("bad.nomad.hcl", 0o600, badConfigs)
	refused := func() bool {
		out, code := a.CLI("job", "validate", path)
		return code == 1 && strings.Contains(out, "bad.nomad.hcl:6,9-15")
	}
	a.Kill()
	file := filepath.Join(a.Dir, "agent.hcl")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, strings.Replace(string(config), "client {\n  enabled           = true", "client {\n  enabled           = false", 1))
	a.Launch()
	a.Eventually(20*time.Second, "a server alone knows the driver", refused)
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes %v, %v", nodes, err)
	}
	if _, err := a.PurgeNode(a.Context(), nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	d, err := a.DriverSchemas(a.Context(), "raw_exec")
	if err != nil || len(d.Schemas) != 1 || d.Schemas[0].Nodes != 0 || !refused() {
		t.Fatalf("without nodes: %+v, %v", d, err)
	}
	if err := a.GarbageCollect(a.Context()); err != nil {
		t.Fatal(err)
	}
	if n := a.known("raw_exec"); n != 0 {
		t.Fatalf("%d schemas are left", n)
	}
	a.Must("job", "validate", path) // no schema is stored, so nothing is checked
}
