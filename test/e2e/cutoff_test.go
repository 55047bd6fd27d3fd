// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"
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
	m.network.link(m.nodes["a"], "down")
	m.server.eventually(40*time.Second, "the first job is stopped on the node", func() bool { return !running(pids["soon"]) })
	if !running(pids["later"]) || !running(pids["never"]) {
		t.Fatal("more than one job was stopped")
	}
	m.nodes["a"].kill()
	m.nodes["a"].launch() // without a network: it knows only its stored state
	m.server.eventually(90*time.Second, "the second job is stopped, too, by an agent that has heard of no server", func() bool { return !running(pids["later"]) })
	if !running(pids["never"]) {
		t.Error("a job without a limit was stopped")
	}
	m.network.link(m.nodes["a"], "up")
	m.ready("a")
}
