// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// shared is a group with a container that serves and a process of the machine beside it,
// in one network. Both write what they see of it.
const shared = `job "shared" {
  group "g" {
    network {
      mode     = "bridge"
      hostname = "shop"
      port "http" { to = 8080 }
      dns { servers = ["10.0.0.53"] }
    }
    restart {
      attempts = 10
      delay    = "1s"
      interval = "10m"
    }
    task "web" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "sh"
        args    = ["-c", "%[1]s > /alloc/data/web; hostname >> /alloc/data/web; cat /etc/resolv.conf >> /alloc/data/web; mkdir -p /tmp/www; echo served > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"]
        ports   = ["http"]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "beside" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "%[1]s > $NOMAD_ALLOC_DIR/data/beside; exec sleep 100000"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`

// seen prints the namespace and the address of a task.
const seen = `(readlink /proc/self/ns/net; ip -4 -o addr show dev eth0 | tr -s ' ' | cut -d ' ' -f 4)`

func TestAContainerAndAProcessShareTheNetworkOfTheirGroup(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the tasks need ip of iproute2")
	}
	a := newAgent(t)
	d := a.dockerd()
	a.Plugin("network-bridge", fmt.Sprintf("exec %s/drover-plugins network-bridge", harness.Bin()))
	// A bridge of its own: agents of other tests, and of the machine, may have theirs.
	a.Configure(`plugin "network-bridge" {
  config {
    bridge_network_name   = "drvdock0"
    bridge_network_subnet = "172.26.112.0/24"
  }
}
`)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "drvdock0").Run() }) // it may not exist
	a.dockerAt(d, "")
	a.Run(fmt.Sprintf(shared, seen))
	alloc := a.Await("shared", model.AllocClientStatusRunning, 1)[0].ID
	read := func(name string) string {
		out, code := a.CLI("alloc", "fs", alloc, "alloc/data/"+name)
		if code != 0 {
			return ""
		}
		return out
	}
	var web, beside string
	together := func(when string) {
		t.Helper()
		a.Eventually(time.Minute, "both tasks have written what they see "+when, func() bool {
			web, beside = read("web"), read("beside")
			return strings.Contains(web, "10.0.0.53") && strings.Contains(beside, "172.26.112.")
		})
		if !strings.HasPrefix(web, beside) || !strings.Contains(web, "\nshop\n") || !strings.Contains(beside, "net:[") {
			t.Fatalf("%s the container sees\n%s\nand the process beside it\n%s", when, web, beside)
		}
	}
	together("at first")
	full, _, err := a.Allocation(a.Context(), alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	port := full.AllocatedResources.Shared.Ports[0]
	served := func() bool {
		r, err := http.Get(fmt.Sprintf("http://%s:%d/", port.HostIP, port.Value))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return err == nil && string(body) == "served\n"
	}
	a.Eventually(30*time.Second, "the port of the machine leads to the container", served)

	// The driver's process is killed, and a container is restarted by another one.
	for _, pid := range a.PluginProcesses("driver-docker") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	a.Eventually(30*time.Second, "the driver is there again", a.dockerHealthy)
	forget := func() {
		t.Helper()
		a.Must("alloc", "exec", "-task", "beside", alloc, "/bin/sh", "-c", "rm $NOMAD_ALLOC_DIR/data/*")
	}
	kill := func(container string) {
		t.Helper()
		if _, err := d.CLI("kill", container); err != nil {
			t.Fatal(err)
		}
	}
	was := beside
	forget()
	kill("web-" + alloc)
	a.Eventually(time.Minute, "the new container has written what it sees", func() bool {
		web = read("web")
		return strings.Contains(web, "10.0.0.53")
	})
	if !strings.HasPrefix(web, was) {
		t.Fatalf("the restarted container sees\n%s\nand the first saw\n%s", web, was)
	}
	a.Eventually(30*time.Second, "the port of the machine leads to the new container", served)

	// The container that keeps the namespace dies: tasks that start afterwards get a new one.
	kill("drover_network_" + alloc)
	forget()
	a.Must("alloc", "restart", alloc)
	together("after the namespace was lost and the alloc restarted")
	a.Eventually(30*time.Second, "the port of the machine leads to the new namespace", served)

	a.Must("job", "stop", "-detach", "shared")
	a.Await("shared", model.AllocClientStatusComplete, 1)
	a.Eventually(time.Minute, "no container is left", func() bool {
		out, err := d.CLI("ps", "-aq", "--filter", "label=io.drover.alloc_id="+alloc)
		return err == nil && out == ""
	})
}
