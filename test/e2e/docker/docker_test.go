// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/test/e2e/harness"
)

// dockerAgent starts a Docker daemon and an agent whose docker driver uses it.
func dockerAgent(t *testing.T) (*agent, *dockertest.Daemon) {
	t.Helper()
	return dockerAgentWith(t, "")
}

// dockerAgentWith adds to the driver's config.
func dockerAgentWith(t *testing.T, config string) (*agent, *dockertest.Daemon) {
	t.Helper()
	a := newAgent(t)
	d := a.dockerd()
	return a.dockerAt(d, config), d
}

// dockerd starts a Docker daemon.
func (a *agent) dockerd() *dockertest.Daemon {
	a.T.Helper()
	d, err := dockertest.Start()
	if err != nil {
		a.T.Skipf("no Docker daemon: %v", err)
	}
	a.T.Cleanup(func() {
		a.KillAll() // otherwise the agent starts containers while they are removed
		d.Remove()
	})
	return d
}

// dockerAt starts the agent with a docker driver that uses the given daemon.
func (a *agent) dockerAt(d *dockertest.Daemon, config string) *agent {
	a.T.Helper()
	a.Plugin("driver-docker", "exec "+filepath.Join(harness.Bin(), "driver-docker"))
	a.Configure(fmt.Sprintf(`client {
  meta {
    rack = "r7"
    path = "/tmp"
    size = "33554432"
    yes  = "true"
  }
}
plugin "docker" {
  config {
    endpoint = %q
    %s
  }
}
`, d.Endpoint(), config))
	a.start()
	a.Eventually(20*time.Second, "the docker driver is healthy", a.dockerHealthy)
	return a
}

// killPlugins kills the processes of all plugins with -9.
func (a *agent) killPlugins() {
	for _, program := range []string{"/drover-plugins", "/driver-docker"} {
		for _, pid := range a.Processes(program) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

const dockerWeb = `job "web" {
  type = "service"
  group "g" {
    network {
      port "http" { to = 8080 }
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sh"
        args    = ["-c", "echo hello from ${NOMAD_ALLOC_ID} at $NOMAD_TASK_DIR; echo served > /local/page; exec httpd -f -p 8080 -h /local"]
        ports   = ["http"]
      }
      env { GREETING = "hi ${NOMAD_PORT_http}" }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`

func TestAContainerServesIsReachedAndOutlivesTheAgentAndItsPlugin(t *testing.T) {
	a, d := dockerAgent(t)
	a.Run(dockerWeb)
	alloc := a.Await("web", model.AllocClientStatusRunning, 1)[0].ID
	full, _, err := a.Allocation(a.Context(), alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	port := full.AllocatedResources.Shared.Ports[0]
	served := func() bool {
		r, err := http.Get(fmt.Sprintf("http://%s:%d/page", port.HostIP, port.Value))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return err == nil && string(body) == "served\n"
	}
	a.Eventually(20*time.Second, "the page is served at the alloc's port", served)
	hello := "hello from " + alloc + " at /local\n"
	a.Eventually(10*time.Second, "the output is in the logs", func() bool { return a.Must("alloc", "logs", alloc) == hello })
	if out := a.Must("alloc", "exec", alloc, "/bin/sh", "-c", "echo $GREETING; cat /local/page"); out != "hi 8080\nserved\n" {
		t.Errorf("exec said %q", out)
	}
	pid := func() string {
		out, err := d.CLI("inspect", "-f", "{{.State.Pid}}", "t-"+alloc)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := pid()
	a.Kill()
	a.killPlugins()
	a.Eventually(harness.Patience, "the container serves without its agent", served)
	a.start()
	a.Eventually(20*time.Second, "the alloc is managed again", func() bool {
		out, code := a.CLI("alloc", "exec", alloc, "cat", "/local/page")
		return code == 0 && out == "served\n"
	})
	if after := pid(); after != before {
		t.Errorf("the container's process is %s, was %s", after, before)
	}
	if got := a.Await("web", model.AllocClientStatusRunning, 1); got[0].ID != alloc {
		t.Errorf("alloc %s runs, want %s", got[0].ID, alloc)
	}
	if got := a.Must("alloc", "logs", alloc); got != hello {
		t.Errorf("the logs are now %q", got)
	}
	a.Must("job", "stop", "-detach", "web")
	a.Await("web", model.AllocClientStatusComplete, 1)
	a.Eventually(20*time.Second, "the container is removed", func() bool {
		out, err := d.CLI("ps", "-aq", "--filter", "name=t-"+alloc)
		return err == nil && out == ""
	})
}

func TestADockerTaskThatFailsSaysWhy(t *testing.T) {
	a, _ := dockerAgent(t)
	job := func(id, config string) string {
		return fmt.Sprintf(`job %q {
  type = "batch"
  group "g" {
`+harness.OnlyOnce+`    task "t" {
      driver = "docker"
      config {
        %s
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}`, id, config)
	}
	a.Run(job("exit", "image = \"busybox:drover\"\n command = \"sh\"\n args = [\"-c\", \"exit 7\"]"))
	a.Run(job("oom", "image = \"busybox:drover\"\n command = \"sh\"\n args = [\"-c\", \"sleep 1; exec tail /dev/zero\"]"))
	a.Run(job("refused", "image = \"busybox:drover\"\n load = \"nothing.tar\""))
	for id, says := range map[string]string{"exit": "Exit Code: 7", "oom": "OOM Killed", "refused": "config.load"} {
		alloc := a.Await(id, model.AllocClientStatusFailed, 1)[0].ID
		a.Eventually(10*time.Second, id+" says why", func() bool { return strings.Contains(a.Must("alloc", "status", alloc), says) })
	}
	a.Run(job("fine", "image = \"busybox:drover\"\n command = \"true\""))
	a.Await("fine", model.AllocClientStatusComplete, 1)
}
