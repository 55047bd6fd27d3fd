// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// both is a group with a container and, started before it, a sidecar of the driver exec. Each
// serves at a port of the loopback and writes what it gets from the other one.
const both = `job "both" {
  group "g" {
    network {
      mode = %q
      port "http" { to = 8080 }
    }
    task "web" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "sh"
        args    = ["-c", "mkdir -p /tmp/www; echo of docker > /tmp/www/index.html; httpd -p 8080 -h /tmp/www; until wget -qO /alloc/data/web http://127.0.0.1:9090/; do sleep 0.2; done; exec sleep 100000"]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "beside" {
      driver = "exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "mkdir -p local/www; echo of exec > local/www/index.html; busybox httpd -p 127.0.0.1:9090 -h local/www; until busybox wget -qO $NOMAD_ALLOC_DIR/data/beside http://127.0.0.1:8080/; do sleep 0.2; done; exec sleep 100000"]
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`

// talk waits until both tasks of the job have what the other one serves.
func (a *agent) talk(alloc, when string) {
	a.T.Helper()
	for name, want := range map[string]string{"web": "of exec\n", "beside": "of docker\n"} {
		a.Eventually(time.Minute, fmt.Sprintf("%s %s has reached the other task at its loopback", when, name), func() bool {
			out, code := a.CLI("alloc", "fs", alloc, "alloc/data/"+name)
			return code == 0 && out == want
		})
	}
}

// needs skips a test without programs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("this test needs %s", p)
		}
	}
}

func TestASidecarOfExecAndAContainerReachEachOtherAtTheirLoopback(t *testing.T) {
	needs(t, "ip", "busybox")
	a := newAgent(t)
	d := a.dockerd()
	a.Plugin("network-bridge", fmt.Sprintf("exec %s/drover-plugins network-bridge", harness.Bin()))
	a.Configure(`plugin "network-bridge" {
  config {
    bridge_network_name   = "drvdock1"
    bridge_network_subnet = "172.26.113.0/24"
  }
}
`)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "drvdock1").Run() }) // it may not exist
	a.dockerAt(d, "")
	a.Run(fmt.Sprintf(both, "bridge"))
	alloc := a.Await("both", model.AllocClientStatusRunning, 1)[0].ID
	a.talk(alloc, "at first")

	// Everything that has made the group dies, and one of the tasks starts again.
	a.Kill()
	a.killPlugins()
	a.start()
	a.Eventually(time.Minute, "the docker driver is healthy", a.dockerHealthy)
	if err := os.RemoveAll(a.Path(alloc, "alloc/data/beside")); err != nil {
		t.Fatal(err)
	}
	a.Must("alloc", "restart", "-task", "beside", alloc)
	a.talk(alloc, "after kills")
	a.Must("job", "stop", "-detach", "both")
	a.Await("both", model.AllocClientStatusComplete, 1)
}

func TestAContainerIsInANetworkOfCNIWithTheSidecarsOfItsGroup(t *testing.T) {
	const programs, bridge, pool = "/usr/lib/cni", "drvdockc", "10.217.31."
	needs(t, "ip", "busybox", filepath.Join(programs, "portmap"))
	a := newAgent(t)
	d := a.dockerd()
	configs := t.TempDir()
	lan := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "lan", "plugins": [
		{"type": "bridge", "bridge": %q, "isGateway": true, "ipMasq": true, "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %q}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`, bridge, pool, t.TempDir())
	if err := os.WriteFile(filepath.Join(configs, "lan.conflist"), []byte(lan), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Plugin("network-cni", fmt.Sprintf("exec %s/drover-plugins network-cni", harness.Bin()))
	a.Configure(fmt.Sprintf(`plugin "network-cni" {
  config {
    cni_path       = %q
    cni_config_dir = %q
  }
}
`, programs, configs))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() }) // it may not exist
	a.dockerAt(d, "")
	a.Run(fmt.Sprintf(both, "cni/lan"))
	alloc := a.Await("both", model.AllocClientStatusRunning, 1)[0].ID
	a.talk(alloc, "at first")
	full, _, err := a.Allocation(a.Context(), alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := full.NetworkStatus; n == nil || n.InterfaceName != "eth0" || !strings.HasPrefix(n.Address, pool) {
		t.Fatalf("the network of the alloc is %+v", n)
	}
	port := full.AllocatedResources.Shared.Ports[0]
	answers := func(address string) func() bool {
		return func() bool {
			out, err := exec.Command("busybox", "wget", "-qO-", "http://"+address+"/").Output()
			return err == nil && string(out) == "of docker\n"
		}
	}
	a.Eventually(time.Minute, "the container answers at the address of the network", answers(net.JoinHostPort(full.NetworkStatus.Address, "8080")))
	a.Eventually(time.Minute, "the port of the machine leads to the container", answers(net.JoinHostPort(port.HostIP, fmt.Sprint(port.Value))))

	// The container that keeps the namespace dies: CNI connects the next one, with the same address.
	if _, err := d.CLI("kill", "drover_network_"+alloc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "beside"} {
		_ = os.Remove(a.Path(alloc, "alloc/data/"+name))
	}
	a.Must("alloc", "restart", "-all-tasks", alloc)
	a.talk(alloc, "in the next namespace")
	a.Eventually(time.Minute, "it has the same address", answers(net.JoinHostPort(full.NetworkStatus.Address, "8080")))

	a.Must("job", "stop", "-detach", "both")
	a.Await("both", model.AllocClientStatusComplete, 1)
	a.Eventually(time.Minute, "no container and no link is left", func() bool {
		out, err := d.CLI("ps", "-aq", "--filter", "label=io.drover.alloc_id="+alloc)
		links, lerr := exec.Command("ip", "-o", "link", "show", "master", bridge).Output()
		return err == nil && lerr == nil && out == "" && len(links) == 0
	})
}

// asking is a group without any network, whose containers ask the agent through the socket of
// their task, one as root and one as another user.
const asking = `job "asking" {
  group "g" {
    network { mode = "none" }
    %s
  }
}`

const askingTask = `task %q {
      driver = "docker"
      user   = %q
      config {
        image   = "busybox:drover"
        command = "sleep"
        args    = ["100000"]
        init    = true
        volumes = ["%s/drover:/drover:ro"]
      }
      identity {
        env  = true
        file = true
      }
      resources {
        cpu    = 20
        memory = 128
      }
    }
`

func TestAContainerWithoutANetworkReachesTheAgentThroughItsSocket(t *testing.T) {
	a, _ := dockerAgentWith(t, "volumes { enabled = true }")
	a.Run(fmt.Sprintf(asking, fmt.Sprintf(askingTask, "root", "root", harness.Bin())+fmt.Sprintf(askingTask, "nobody", "nobody", harness.Bin())))
	alloc := a.Await("asking", model.AllocClientStatusRunning, 1)[0].ID
	inside := func(task, script string) (string, int) {
		return a.CLI("alloc", "exec", "-task", task, alloc, "sh", "-c", script)
	}
	const ask = `/drover job status -address unix:///secrets/api.sock -json asking`
	for _, task := range []string{"root", "nobody"} {
		said := func(when string) {
			t.Helper()
			a.Eventually(time.Minute, fmt.Sprintf("%s the agent answers %s through its socket", when, task), func() bool {
				out, code := inside(task, ask)
				var jobs []struct{ ID string }
				var one struct{ ID string }
				return code == 0 && (json.Unmarshal([]byte(out), &jobs) == nil && len(jobs) == 1 || json.Unmarshal([]byte(out), &one) == nil && one.ID == "asking")
			})
		}
		said("at first")
		if out, code := inside(task, "unset NOMAD_TOKEN; "+ask); code == 0 || !strings.Contains(out, "Unauthorized") {
			t.Errorf("%s without its token: exit code %d: %s", task, code, out)
		}
		if out, code := inside(task, `[ "$(cat /secrets/nomad_token)" = "$NOMAD_TOKEN" ] && echo same`); code != 0 || out != "same\n" {
			t.Errorf("%s reads its token: exit code %d: %s", task, code, out)
		}
		if out, code := inside(task, "ls /sys/class/net"); code != 0 || !slices.Equal(strings.Fields(out), []string{"lo"}) {
			t.Errorf("%s has the interfaces %q, exit code %d", task, out, code)
		}
	}
	a.Kill()
	a.start()
	a.Eventually(time.Minute, "the docker driver is healthy", a.dockerHealthy)
	for _, task := range []string{"root", "nobody"} {
		a.Eventually(time.Minute, "the next agent answers "+task+" through the same socket", func() bool {
			out, code := inside(task, ask)
			return code == 0 && strings.Contains(out, "asking")
		})
	}
}
