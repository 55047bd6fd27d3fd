// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// The three tiers: front finds api by DNS, api finds store by a template, and whoever asks the
// API finds both. Each request has a time limit: nobody answers one that was under way while
// the network of its server was removed.
const (
	storeTier = `job "store" {
  constraint {
    attribute = "${node.unique.name}"
    value     = "two"
  }
  group "g" {
    network {
      mode = "bridge"
      port "http" { to = 8080 }
    }
    restart {
      attempts = 10
      delay    = "1s"
    }
    service {
      name     = "store"
      provider = "nomad"
      port     = "http"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR && echo goods > index.html && exec busybox httpd -f -p 8080 -h ."]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`
	apiTier = `job "api" {
  group "g" {
    count          = 2
    shutdown_delay = "2s"
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }
    network {
      mode = "bridge"
      port "http" {
        static = 18090
        to     = 8080
      }
    }
    update {
      max_parallel      = 1
      health_check      = "checks"
      min_healthy_time  = "1s"
      healthy_deadline  = "DEADLINE"
      progress_deadline = "5m"
    }
    restart {
      attempts = 10
      delay    = "1s"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    service {
      name     = "api"
      provider = "nomad"
      port     = "http"
      check {
        type     = "http"
        path     = "/health"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "t" {
      driver = "raw_exec"
      template {
        destination = "local/store"
        change_mode = "noop"
        data        = "{{ range nomadService \"store\" }}{{ .Address }}:{{ .Port }}{{ end }}"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR; mkdir -p www; [ VERSION = bad ] || echo ok > www/health; (while :; do timeout 10 busybox wget -q -O next http://$(cat store)/ && echo VERSION $(cat next) > www/next && mv www/next www/index.html; sleep 0.3; done) & exec busybox httpd -f -p 8080 -h www"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`
	frontTier = `job "front" {
  constraint {
    attribute = "${node.unique.name}"
    value     = "one"
  }
  group "g" {
    network {
      mode = "bridge"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/bash"
        args    = ["-c", "while :; do timeout 10 /bin/bash -c 'exec 3<>/dev/tcp/api.service.drover/18090 && printf \"GET / HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3' > local/next 2>&1; mv local/next local/out; sleep 0.3; done"]
      }
      resources {
        cpu    = 10
        memory = 50
      }
    }
  }
}`
)

// tiers is a cluster of two machines with the three jobs.
type tiers struct {
	t        *testing.T
	one, two *netMachine
	front    string // alloc
}

func newTiers(t *testing.T) *tiers {
	w := harness.NewNetwork(t)
	const names = "dns {\n enabled = true\n}\n"
	one := netMachineIn(w, "one", names, `server { enabled = true }`)
	two := netMachineIn(w, "two", names, fmt.Sprintf("client {\n servers = [%q]\n}", one.RPCAddress()))
	x := &tiers{t: t, one: one, two: two}
	x.start(one, 1)
	x.start(two, 2)
	return x
}

// start starts an agent and waits until so many nodes are ready.
func (x *tiers) start(m *netMachine, nodes int) {
	x.t.Helper()
	m.Launch()
	x.one.offersBridges(nodes)
}

// api runs a version of the middle tier. The version "bad" never becomes healthy.
func (x *tiers) api(version string) {
	deadline := "4m"
	if version == "bad" {
		deadline = "10s"
	}
	x.one.Run(strings.NewReplacer("VERSION", version, "DEADLINE", deadline).Replace(apiTier))
}

// works waits until a page of this version comes to the front by DNS, and by the API's addresses
// from another machine.
func (x *tiers) works(when, version string) {
	x.t.Helper()
	want, begin := version+" goods", time.Now()
	defer func() {
		if !x.t.Failed() {
			return
		}
		out, _ := os.ReadFile(x.one.Path(x.front, "t/local/out"))
		x.t.Logf("%s: the front has %q, DNS %q and %q, and of the API:", when, out, x.one.hosts("api.service.drover"), x.two.hosts("api.service.drover"))
		for _, r := range x.found() {
			x.t.Logf("%s:%d answers %q; alloc %s", r.Address, r.Port, outside(r.Address, r.Port), r.AllocID)
		}
		for _, job := range []string{"store", "api"} {
			for _, a := range x.one.Allocs(job, "") {
				x.t.Logf("%s %s on %s: %s, health %+v", job, a.ID, a.NodeName, a.ClientStatus, a.DeploymentStatus)
			}
		}
	}()
	x.one.Eventually(harness.Patience, when+" the front finds "+want, func() bool {
		file := x.one.Path(x.front, "t/local/out")
		info, err := os.Stat(file)
		body, _ := os.ReadFile(file)
		return err == nil && info.ModTime().After(begin) && strings.Contains(string(body), want)
	})
	x.one.Eventually(harness.Patience, when+" the API's addresses lead to "+want, func() bool {
		list := x.found()
		return len(list) == 2 && !slices.ContainsFunc(list, func(r *model.ServiceRegistration) bool { return outside(r.Address, r.Port) != want })
	})
	both := []string{x.one.address, x.two.address}
	slices.Sort(both)
	for _, m := range []*netMachine{x.one, x.two} {
		m.Eventually(harness.Patience, when+" the DNS of each node knows both", func() bool { return slices.Equal(m.hosts("api.service.drover"), both) })
	}
}

// found is what the API says of the middle tier.
func (x *tiers) found() (list []*model.ServiceRegistration) {
	if code, body := x.one.HTTPGet("/v1/service/api"); code != 200 || json.Unmarshal([]byte(body), &list) != nil {
		return nil
	}
	return list
}

// reboot ends everything that runs on a machine, and everything that its kernel has.
func (x *tiers) reboot(m *netMachine) {
	x.t.Helper()
	m.KillAll()
	<-m.Done
	spaces, err := filepath.Glob(filepath.Join(m.networkState(), "netns", "*"))
	if err != nil || len(spaces) == 0 {
		x.t.Fatalf("the namespaces are %q, %v", spaces, err)
	}
	for _, path := range spaces {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			x.t.Fatal(err)
		}
	}
	ns, err := netns.GetFromPath(m.namespace())
	if err != nil {
		x.t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		x.t.Fatal(err)
	}
	defer h.Close()
	bridge, err := h.LinkByName("drbridge")
	if err == nil {
		err = h.LinkDel(bridge)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	m.flush()
	x.start(m, 2)
}

func TestThreeTiersFindEachOtherThroughUpdatesKillsAndAReboot(t *testing.T) {
	x := newTiers(t)
	x.one.Run(storeTier)
	x.api("v1")
	x.one.Run(frontTier)
	x.front = x.one.Await("front", model.AllocClientStatusRunning, 1)[0].ID
	x.works("at first", "v1")
	x.api("v2")
	x.works("after an update", "v2")

	x.api("bad")
	x.one.Eventually(harness.Patience, "the deployment fails by its checks", func() bool {
		list, _, err := x.one.Deployments(x.one.Context(), nil)
		return err == nil && slices.ContainsFunc(list, func(d *model.Deployment) bool { return d.JobID == "api" && d.Status == model.DeploymentStatusFailed })
	})
	var good []string
	for _, r := range x.found() {
		if outside(r.Address, r.Port) == "v2 goods" {
			good = append(good, r.Address)
		}
	}
	if len(good) != 1 {
		t.Errorf("%d instances of the version before are left of two, one of which was replaced", len(good))
	}
	x.one.Eventually(harness.Patience, "DNS knows the instance whose check passes only", func() bool { return slices.Equal(x.one.hosts("api.service.drover"), good) })
	x.api("v3")
	x.works("after a version that works", "v3")

	x.two.Kill()
	if got := outside(x.two.address, 18090); got != "v3 goods" {
		t.Errorf("without its agent an instance answers %q", got)
	}
	x.start(x.two, 2)
	for _, m := range []*netMachine{x.one, x.two} {
		for _, pid := range m.networkProcesses() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	x.works("after kills of an agent and of the network plugins", "v3")
	x.one.Kill()
	if got := x.two.hosts("api.service.drover"); len(got) != 2 {
		t.Errorf("without a server the DNS of the other node knows %q", got)
	}
	x.start(x.one, 2)
	x.works("after a kill of the server", "v3")
	x.reboot(x.two)
	x.works("after a reboot", "v3")
}
