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

	"github.com/drover-project/drover/test/e2e/harness"
)

const shellPluginJob = `
job "shelled" {
  type = "service"
  group "g" {
    update {
      min_healthy_time = "100ms"
    }
    task "t" {
      driver = "shell"
      config {
        script = "echo $$ > ${NOMAD_TASK_DIR}/pid; while :; do sleep 0.1; done"
      }
    }
  }
}
`

// pluginVersion returns the version of the plugin that the node reports.
func (a *agent) pluginVersion() string {
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil || len(nodes) != 1 {
		return ""
	}
	n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
	if err != nil || n.Plugins["driver-shell"] == nil {
		return ""
	}
	return n.Plugins["driver-shell"].Version
}

func TestARegisteredPluginServesJobsIsUpgradedUnderThemAndABadVersionGoesBack(t *testing.T) {
	a := newAgent(t)
	config := filepath.Join(a.Dir, "agent.hcl")
	body, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, strings.Replace(string(body), "server { enabled = true }", "server {\n  enabled = true\n  plugin_registry = true\n}", 1))
	a.start()
	register := func(version string, more ...string) (string, int) {
		args := append([]string{"plugin", "register", "-min-healthy-time", "100ms", "-healthy-deadline", "2m"}, more...)
		return a.CLIWithin(5*time.Minute, append(args, "driver-shell", harness.ShellPlugin(t, version))...)
	}
	if out, code := register("1.0.0", "-version", "1.0.0"); code != 0 || !strings.Contains(out, "is complete: 1 done") {
		t.Fatalf("the first version: exit code %d\n%s", code, out)
	}
	a.Run(shellPluginJob)
	pids := a.PIDs(a.Await("shelled", "running", 1))

	spec := a.Write("plugins.hcl", 0o600, fmt.Sprintf(`plugin "driver-shell" {
  version = "2.0.0"
  file    = %q
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  config {
    greeting = "good day"
  }
  rollout {
    min_healthy_time = "100ms"
  }
}
`, harness.ShellPlugin(t, "2.0.0")))
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "register", spec); code != 0 {
		t.Fatalf("the second version: exit code %d\n%s", code, out)
	}
	if v := a.pluginVersion(); v != "2.0.0" {
		t.Fatalf("the node runs version %q", v)
	}
	a.unharmed(pids)

	out, code := register("broken", "-auto-revert")
	if code != 1 || !strings.Contains(out, "this version is broken") {
		t.Fatalf("a broken version: exit code %d\n%s", code, out)
	}
	a.Eventually(20*time.Second, "the registry is back at the second version", func() bool {
		p, _, err := a.RegistryPlugin(a.Context(), "driver-shell", false, nil)
		return err == nil && p.Rollout.Status == "complete" && p.Rollout.GivenUp != nil && a.pluginVersion() == "2.0.0"
	})
	a.unharmed(pids)
	if out := a.Must("plugin", "registry", "driver-shell"); !strings.Contains(out, "1 done") || !strings.Contains(out, "went back") {
		t.Errorf("plugin registry shows\n%s", out)
	}

	a.Kill()
	a.start()
	a.Eventually(20*time.Second, "after a crash of the agent the node runs the same version", func() bool { return a.pluginVersion() == "2.0.0" })
	a.unharmed(pids)

	a.Must("plugin", "deregister", "driver-shell")
	file := filepath.Join(a.Dir, "plugins", "driver-shell")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the plugin is gone while its task runs: %v", err)
	}
	a.Must("job", "stop", "-detach", "shelled")
	a.Eventually(time.Minute, "the plugin is removed with its last task", func() bool {
		_, err := os.Stat(file)
		return os.IsNotExist(err) && a.pluginVersion() == ""
	})
}

// unharmed checks that tasks still run.
func (a *agent) unharmed(pids map[string]int) {
	a.T.Helper()
	for id, pid := range pids {
		if !harness.Running(pid) {
			a.T.Fatalf("the task of %s has ended", id)
		}
		x, _, err := a.Allocation(a.Context(), id, nil)
		if err != nil || x.ClientStatus != "running" || x.TaskStates["t"].Restarts != 0 {
			a.T.Fatalf("alloc %s is %+v, %v", id, x, err)
		}
	}
}
