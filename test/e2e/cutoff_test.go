// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

// cutOffAfter returns a job on node "a" that must stop soon without contact to
// servers.
func cutOffAfter(id, limit string) string {
	if limit != "" {
		limit = "disconnect {\n      stop_on_client_after = \"" + limit + "\"\n    }"
	}
	return fmt.Sprintf(`job %q {
  constraint {
    attribute = "${node.unique.name}"
    value     = "a"
  }
  group "g" {
    %s
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > $NOMAD_TASK_DIR/pid; while :; do sleep 0.1; done"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, id, limit)
}

func TestANodeThatIsCutOffStopsWhatMustNotRunOnWithoutServers(t *testing.T) {
	m := newMachines(t, "a")
	pids := m.begin(map[string]string{"soon": cutOffAfter("soon", "10s"), "later": cutOffAfter("later", "35s"), "never": cutOffAfter("never", "")})
	m.network.Link(m.nodes["a"].Agent, "down")
	m.server.Eventually(40*time.Second, "the first job is stopped on the node", func() bool { return !harness.Running(pids["soon"]) })
	if !harness.Running(pids["later"]) || !harness.Running(pids["never"]) {
		t.Fatal("more than one job was stopped")
	}
	m.nodes["a"].Kill()
	m.nodes["a"].Launch() // without a network: it knows only its stored state
	m.server.Eventually(90*time.Second, "the second job is stopped, too, by an agent that has heard of no server", func() bool { return !harness.Running(pids["later"]) })
	if !harness.Running(pids["never"]) {
		t.Error("a job without a limit was stopped")
	}
	m.network.Link(m.nodes["a"].Agent, "up")
	m.ready("a")
}
