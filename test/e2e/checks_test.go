// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// checkedWeb is a job of one alloc in a network of its own, whose checks ask for a path.
func checkedWeb(path, minHealthy string) string {
	return fmt.Sprintf(`job "web" {
  group "g" {
    network {
      mode = "bridge"
      port "http" { to = 8080 }
    }
    update {
      min_healthy_time  = %q
      healthy_deadline  = "20s"
      progress_deadline = "30s"
    }
    restart {
      attempts = 5
      interval = "10m"
      delay    = "100ms"
      mode     = "fail"
    }
    service {
      name     = "web"
      provider = "nomad"
      port     = "http"
      check {
        name         = "inside"
        type         = "http"
        path         = %q
        address_mode = "alloc"
        interval     = "1s"
        timeout      = "1s"
        check_restart {
          limit = 3
          grace = "1s"
        }
      }
      check {
        name      = "port"
        type      = "tcp"
        interval  = "1s"
        timeout   = "1s"
        on_update = "ignore"
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR && echo $$ > pid && echo ok > index.html && exec busybox httpd -f -p $NOMAD_PORT_http -h ."]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, minHealthy, path)
}

// checkStatus is what the API says of a check.
type checkStatus struct {
	Check, Status, Mode, Output, Service string
	StatusCode                           int
}

// checksOf returns the results of an alloc's checks, by their names.
func (m *netMachine) checksOf(id string) map[string]checkStatus {
	code, body := m.HTTPGet("/v1/client/allocation/" + id + "/checks")
	var byID map[string]checkStatus
	if code != 200 || json.Unmarshal([]byte(body), &byID) != nil {
		return nil
	}
	out := map[string]checkStatus{}
	for _, c := range byID {
		out[c.Check] = c
	}
	return out
}

func (m *netMachine) deploymentOf(version uint64) string {
	all, _, err := m.JobDeployments(m.Context(), "web", true, nil)
	if err != nil {
		return ""
	}
	for _, d := range all {
		if d.JobVersion == version {
			return d.Status
		}
	}
	return ""
}

func TestServiceChecksOfAnAllocInItsOwnNetwork(t *testing.T) {
	m := newNetMachine(t)
	const limit = 2 * time.Minute
	m.Run(checkedWeb("/", "3s"))
	var id string
	m.Eventually(limit, "the alloc runs", func() bool {
		if all := m.Allocs("web", "running"); len(all) == 1 {
			id = all[0].ID
		}
		return id != ""
	})
	m.Kill() // before min_healthy_time is over
	m.Start()
	m.Eventually(limit, "the deployment is successful", func() bool { return m.deploymentOf(0) == model.DeploymentStatusSuccessful })
	got := m.checksOf(id)
	if c := got["inside"]; c.Status != "success" || c.StatusCode != 200 || c.Mode != "healthiness" || c.Output != "nomad: http ok" {
		t.Errorf("the http check: %+v", c)
	}
	m.Eventually(limit, "the tcp check passes", func() bool { return m.checksOf(id)["port"].Output == "nomad: tcp ok" })
	if out := m.Must("alloc", "checks", id); !strings.Contains(out, "Status of 2 Nomad Service Checks") || !strings.Contains(out, "nomad: http ok") {
		t.Errorf("alloc checks:\n%s", out)
	}
	if out := m.Must("alloc", "status", id); !strings.Contains(out, "Nomad Service Checks") || !strings.Contains(out, "readiness") {
		t.Errorf("alloc status:\n%s", out)
	}

	t.Run("results outlive the agent", func(t *testing.T) {
		m.Kill()
		m.Start()
		m.Eventually(limit, "the result is there", func() bool { return m.checksOf(id)["inside"].Status != "" })
		if c := m.checksOf(id)["inside"]; c.Status != "success" {
			t.Errorf("after a restart of the agent: %+v", c)
		}
	})
	restarts := func() (n uint64, signal string) {
		a, _, err := m.Allocation(m.Context(), id, nil)
		if err != nil {
			return 0, ""
		}
		for _, e := range a.TaskStates["t"].Events {
			if e.Type == model.TaskRestartSignal {
				signal = e.DisplayMessage
			}
		}
		return a.TaskStates["t"].Restarts, signal
	}
	t.Run("check_restart restarts a task that hangs", func(t *testing.T) {
		pid := m.PIDs(m.Allocs("web", "running"))[id]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		m.Eventually(limit, "the check says that it hangs", func() bool {
			c := m.checksOf(id)["inside"]
			n, _ := restarts()
			return strings.Contains(c.Output, "no answer within the timeout of 1s") || n > 0
		})
		m.Eventually(limit, "the task is restarted", func() bool { n, _ := restarts(); return n == 1 })
		if _, signal := restarts(); signal != `healthcheck: check "inside" unhealthy` {
			t.Errorf("the event says %q", signal)
		}
		m.Eventually(limit, "the check passes again", func() bool { return m.checksOf(id)["inside"].Status == "success" })
	})
	t.Run("a check that flaps", func(t *testing.T) {
		page := m.Path(id, "t/local/index.html")
		if err := os.Rename(page, page+".away"); err != nil {
			t.Fatal(err)
		}
		m.Eventually(limit, "the check fails", func() bool { return m.checksOf(id)["inside"].StatusCode == 404 })
		if err := os.Rename(page+".away", page); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		m.Eventually(limit, "the check passes again", func() bool { return m.checksOf(id)["inside"].Status == "success" })
	})
	t.Run("an update whose checks fail is not rolled out", func(t *testing.T) {
		m.Run(checkedWeb("/none", "1s"))
		m.Eventually(limit, "the deployment fails", func() bool { return m.deploymentOf(1) == model.DeploymentStatusFailed })
	})
	if t.Failed() {
		t.Log(m.Must("alloc", "status", id))
	}
}
