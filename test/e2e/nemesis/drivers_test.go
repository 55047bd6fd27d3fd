// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// TestDriversThatAreWrongCostNobodyHisVolumes plays what operators and drivers do wrong, with
// real drivers on two nodes.
func TestDriversThatAreWrongCostNobodyHisVolumes(t *testing.T) {
	c := newDisks(t)
	for name, play := range map[string]func(*disks){
		"two drivers have one id":                        (*disks).contest,
		"a driver tells the secrets of its calls":        (*disks).tell,
		"a volume in use is neither deleted nor another": (*disks).claimed,
		"the node of a writer is drained":                (*disks).drainNode,
		"the parts of a driver are services and move":    (*disks).moveParts,
	} {
		t.Run(name, func(t *testing.T) {
			c.of(t)
			play(c)
		})
		c.of(c.t)
	}
}

// driverOn is a job that runs a driver with the id "both" on one node.
func driverOn(job, node, command, args string) string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = %q
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = %q
        args    = [%s]
      }
      csi_plugin {
        id   = "both"
        type = "monolith"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`, job, node, command, args)
}

// both waits until n nodes have healthy drivers with the id "both".
func (c *disks) both(n int) {
	c.t.Helper()
	c.server().Eventually(2*harness.Patience, fmt.Sprintf("%d nodes have a driver with the id", n), func() bool {
		p, err := c.server().CSIPlugin(short(c.t), "both")
		return n == 0 && err != nil || err == nil && p.NodesHealthy == n && p.ControllersHealthy == n && len(p.Nodes) == n
	})
}

// contest has two drivers with one id on two nodes.
func (c *disks) contest() {
	c.t.Helper()
	one := driverOn("one", "n1", filepath.Join(c.shared, "netdisk"), fmt.Sprintf(`"-shared", %q, "-node-id", "n1"`, c.shared))
	two := driverOn("two", "n2", filepath.Join(harness.Bin(), "drover-plugins"), fmt.Sprintf(`"drover-csi-local", "-data-dir", %q, "-node-id", "n2"`, filepath.Join(c.t.TempDir(), "local")))
	spec := c.server().Write("plain.hcl", 0o600, strings.NewReplacer(`"database"`, `"plain"`, `"netdisk"`, `"both"`).Replace(netdiskVolume))
	const why = `nodes run different drivers with the id "both": `
	c.server().Run(one)
	c.server().Run(two)
	c.both(2)
	if out, code := c.server().CLI("volume", "create", spec); code == 0 || !strings.Contains(out, why) || !strings.Contains(out, `"netdisk.example.org"`) || !strings.Contains(out, "another id") {
		c.t.Errorf("a volume of one of two drivers: %d, %s", code, out)
	}
	if out := c.server().Must("plugin", "status", "-type", "csi", "both"); !strings.Contains(out, why) {
		c.t.Errorf("plugin status says %s", out)
	}
	c.server().Must("job", "stop", "-purge", "-detach", "two")
	c.both(1)
	c.server().Must("volume", "create", spec)
	c.server().Run(two)
	c.both(2)
	seen := len(c.calls(0))
	onN2 := strings.Replace(netdiskWriter("stranger"), `group "g" {`, "group \"g\" {\n constraint {\n attribute = \"${node.unique.name}\"\n value = \"n2\"\n }", 1)
	c.server().Run(strings.Replace(onN2, `"database"`, `"plain"`, 1))
	c.server().Eventually(harness.Patience, "a node with the other driver is refused, and why", func() bool {
		out, _ := c.server().CLI("job", "status", "stranger")
		return strings.Contains(out, "and CSI volume plain is one of the driver netdisk.example.org")
	})
	c.server().Must("job", "stop", "-purge", "-detach", "stranger")
	c.server().Run(strings.Replace(netdiskWriter("owner"), `"database"`, `"plain"`, 1))
	if a := c.runs("owner", "line of owner on n1"); a.NodeName != "n1" {
		c.t.Errorf("the writer runs on %s", a.NodeName)
	}
	c.server().Must("job", "stop", "-purge", "-detach", "owner")
	c.server().Eventually(2*harness.Patience, "the volume is deleted by its own driver", func() bool {
		_, code := c.server().CLI("volume", "delete", "plain")
		return code == 0
	})
	if calls := strings.Join(c.calls(seen), "\n"); !strings.Contains(calls, "n1 DeleteVolume plain is done") || strings.Contains(calls, "n2 NodeStageVolume plain") {
		c.t.Errorf("the driver was called\n%s", calls)
	}
	c.server().Must("job", "stop", "-purge", "-detach", "one")
	c.server().Must("job", "stop", "-purge", "-detach", "two")
	c.both(0)
}

// tell has the driver fail with the secrets of its calls in its words.
func (c *disks) tell() {
	c.t.Helper()
	const secret = "correct-horse-battery"
	spec := c.server().Write("secret.hcl", 0o600, strings.ReplaceAll(netdiskVolume, `"database"`, `"secret"`)+"\nsecrets {\n  password = \""+secret+"\"\n}\n")
	steps := []string{"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"}
	for _, step := range steps {
		c.fault(step, "fail: no access for password="+secret)
	}
	var said strings.Builder
	out, code := c.server().CLI("volume", "create", spec)
	said.WriteString(out)
	if code == 0 || !strings.Contains(out, "no access for password=(secret)") {
		c.t.Errorf("volume create says %d, %s", code, out)
	}
	c.mend("CreateVolume")
	c.server().Must("volume", "create", spec)
	c.server().Run(strings.ReplaceAll(netdiskWriter("keen"), `"database"`, `"secret"`))
	for _, step := range steps[1:] {
		seen := len(c.calls(0))
		c.server().Eventually(2*harness.Patience, step+" has failed", func() bool {
			out, _ := c.server().CLI("volume", "status", "-type", "csi", "secret")
			said.WriteString(out)
			return strings.Contains(strings.Join(c.calls(seen), "\n"), step+" secret fails")
		})
		c.mend(step)
	}
	a := c.runs("keen", "line of keen")
	for _, args := range [][]string{{"alloc", "status", a.ID}, {"volume", "status", "-type", "csi", "-json", "secret"}, {"job", "status", "keen"}, {"node", "status", a.NodeID}} {
		said.WriteString(c.server().Must(args...))
	}
	for _, machine := range append(append([]*harness.Agent{}, c.servers...), c.nodes...) {
		said.WriteString(machine.Log())
	}
	if text := said.String(); strings.Contains(text, secret) {
		at := strings.Index(text, secret)
		c.t.Errorf("the secret is told: %s", text[max(0, at-300):at+len(secret)])
	}
	if !strings.Contains(said.String(), "(secret)") {
		c.t.Error("nobody has told of the driver's words, so this shows nothing")
	}
	c.server().Must("job", "stop", "-purge", "-detach", "keen")
	c.server().Eventually(2*harness.Patience, "the volume is deleted", func() bool {
		_, code := c.server().CLI("volume", "delete", "secret")
		return code == 0
	})
}

// claimed tries to take a volume from its writer: by deleting it, and from another namespace.
func (c *disks) claimed() {
	c.t.Helper()
	c.server().Run(netdiskWriter("owner"))
	a := c.runs("owner", "line of owner")
	seen := len(c.calls(0))
	for _, verb := range []string{"delete", "deregister"} {
		if out, code := c.server().CLI("volume", verb, "database"); code == 0 || !strings.Contains(out, "volume in use: database") {
			c.t.Errorf("volume %s says %d, %s", verb, code, out)
		}
	}
	c.server().Must("namespace", "apply", "other")
	c.server().Run(strings.Replace(netdiskWriter("thief"), "job \"thief\" {", "job \"thief\" {\n  namespace = \"other\"", 1))
	c.server().Eventually(harness.Patience, "a job of another namespace is told that it has no such volume", func() bool {
		out, _ := c.server().CLI("job", "status", "-namespace", "other", "thief")
		return strings.Contains(out, "missing CSI volume(s) database")
	})
	if calls := c.calls(seen); len(calls) > 0 {
		c.t.Errorf("the driver was called: %q", calls)
	}
	if now := c.runs("owner", "line of owner"); now.ID != a.ID {
		c.t.Errorf("the writer was touched: %+v", now)
	}
	c.server().Must("job", "stop", "-purge", "-namespace", "other", "-detach", "thief")
	c.server().Must("job", "stop", "-purge", "-detach", "owner")
	c.free()
}

// drainNode drains the node of a writer, which has its data on the other one.
func (c *disks) drainNode() {
	c.t.Helper()
	c.server().Run(netdiskWriter("mover"))
	first := c.runs("mover", "line of mover on")
	c.server().Must("node", "drain", "-enable", "-yes", "-detach", "-deadline", "5m", first.NodeID)
	var second *model.AllocListStub
	c.server().Eventually(2*harness.Patience, "the writer runs on the other node", func() bool {
		for _, x := range c.server().Allocs("mover", model.AllocClientStatusRunning) {
			if x.NodeID != first.NodeID {
				second = x
			}
		}
		return second != nil
	})
	c.runs("mover", "line of mover on "+first.NodeName, "line of mover on "+second.NodeName)
	c.server().Eventually(2*harness.Patience, "the drain is complete", func() bool {
		n, _, err := c.server().Node(short(c.t), first.NodeID, nil)
		return err == nil && n.DrainStrategy == nil
	})
	c.server().Must("node", "eligibility", "-enable", first.NodeID)
	c.server().Must("job", "stop", "-purge", "-detach", "mover")
	c.free()
	c.healthy(2)
}

// partOf is a service that is a part of the driver with the id "parts".
func (c *disks) partOf(kind string, count int) string {
	return fmt.Sprintf(`
job "parts-%[1]s" {
  group "g" {
    count = %[2]d
    constraint {
      distinct_hosts = true
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = %[3]q
        args    = ["-shared", %[4]q, "-node-id", "${node.unique.name}", "-part", %[1]q]
      }
      csi_plugin {
        id   = "parts"
        type = %[1]q
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`, kind, count, filepath.Join(c.shared, "netdisk"), c.shared)
}

// moveParts drains the node of a writer that has the only controller of its driver, too, whose
// parts are jobs of type service. The writer starts on the other node once, after the new
// controller has taken the volume from the first and given it to the second.
func (c *disks) moveParts() {
	c.t.Helper()
	c.server().Run(c.partOf("node", 2))
	c.server().Run(c.partOf("controller", 1))
	c.server().Eventually(2*harness.Patience, "the parts are healthy", func() bool {
		p, err := c.server().CSIPlugin(short(c.t), "parts")
		return err == nil && p.NodesHealthy == 2 && p.ControllersHealthy == 1
	})
	controller := c.server().Await("parts-controller", model.AllocClientStatusRunning, 1)[0]
	c.server().Must("volume", "create", c.server().Write("parts.hcl", 0o600, strings.NewReplacer(`"database"`, `"parts"`, `"netdisk"`, `"parts"`).Replace(netdiskVolume)))
	near := fmt.Sprintf("group \"g\" {\n affinity {\n attribute = \"${node.unique.name}\"\n value = %q\n weight = 100\n }", controller.NodeName)
	c.server().Run(strings.NewReplacer(`group "g" {`, near, `"database"`, `"parts"`).Replace(netdiskWriter("along")))
	first := c.runs("along", "line of along on "+controller.NodeName)
	seen := len(c.calls(0))
	c.server().Must("node", "drain", "-enable", "-yes", "-detach", "-deadline", "5m", first.NodeID)
	c.server().Eventually(2*harness.Patience, "the drain is complete", func() bool {
		n, _, err := c.server().Node(short(c.t), first.NodeID, nil)
		return err == nil && n.DrainStrategy == nil
	})
	var second *model.AllocListStub
	c.server().Eventually(2*harness.Patience, "the writer runs on the other node", func() bool {
		for _, x := range c.server().Allocs("along", model.AllocClientStatusRunning) {
			second = x
		}
		return second != nil && second.NodeID != first.NodeID
	})
	c.runs("along", "line of along on "+first.NodeName, "line of along on "+second.NodeName)
	if failed := c.server().Allocs("along", model.AllocClientStatusFailed); len(failed) > 0 {
		c.t.Errorf("the writer was started without its volume: %+v", failed[0])
	}
	if calls := strings.Join(c.calls(seen), "\n"); strings.Contains(calls, "NodeStageVolume parts fails") || strings.Contains(calls, "WRONG") {
		c.t.Errorf("the driver was called\n%s", calls)
	}
	c.server().Must("node", "eligibility", "-enable", first.NodeID)
	c.server().Must("job", "stop", "-purge", "-detach", "along")
	c.server().Eventually(2*harness.Patience, "the volume is deleted", func() bool {
		_, code := c.server().CLI("volume", "delete", "parts")
		return code == 0
	})
	c.server().Must("job", "stop", "-purge", "-detach", "parts-node")
	c.server().Must("job", "stop", "-purge", "-detach", "parts-controller")
	c.healthy(2)
}
