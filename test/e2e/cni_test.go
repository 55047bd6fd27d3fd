// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// standardPrograms is where Debian keeps the programs of CNI.
const standardPrograms = "/usr/lib/cni"

// The agent is of a machine of its own, whose CNI configuration is of the standard programs.
func newCNIMachine(t *testing.T) *netMachine {
	t.Helper()
	w := harness.NewNetwork(t)
	if _, err := exec.LookPath("busybox"); err != nil {
		t.Skip("the tasks of this test need busybox")
	}
	if _, err := os.Stat(filepath.Join(standardPrograms, "portmap")); err != nil {
		t.Skip("install containernetworking-plugins")
	}
	configs, pool := t.TempDir(), t.TempDir()
	lan := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "lan", "plugins": [
		{"type": "bridge", "bridge": "drlan", "isGateway": true, "ipMasq": true, "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.232.9.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %q}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`, pool)
	if err := os.WriteFile(filepath.Join(configs, "lan.conflist"), []byte(lan), 0o600); err != nil {
		t.Fatal(err)
	}
	a := w.Machine("node", fmt.Sprintf(`server { enabled = true }
client {
  enabled           = true
  network_interface = "eth0"
  cpu_total_compute = 20000
  memory_total_mb   = 20000
  disk_total_mb     = 200000
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
  cni_path       = %q
  cni_config_dir = %q
}
plugin "raw_exec" {
  config { enabled = true }
}
`, standardPrograms, configs))
	m := &netMachine{agent: &agent{a}, address: a.IPAddress()}
	if err := os.Symlink(filepath.Join(harness.Bin(), "drover-plugins"), filepath.Join(a.Dir, "plugins", "network-cni")); err != nil {
		t.Fatal(err)
	}
	m.Start()
	m.Eventually(harness.Patience, "the node offers the network of its configuration, and has the version of its programs", func() bool {
		nodes, _, err := m.Nodes(m.Context(), nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		n, _, err := m.Node(m.Context(), nodes[0].ID, nil)
		return err == nil && n.Attributes["plugins.cni.version.bridge"] != "" &&
			slices.ContainsFunc(n.NodeResources.NodeNetworks, func(x *model.NodeNetworkResource) bool { return x.Mode == "cni/lan" })
	})
	return m
}

func TestAllocsOfANetworkOfCNIAnswerThroughKillsAndLeaveNothing(t *testing.T) {
	m := newCNIMachine(t)
	job := func(id, network string) string {
		return strings.Replace(web(id, "service", 1, "to = 8080"), `mode = "bridge"`, network, 1)
	}
	m.Run(job("lan", "mode = \"cni/lan\"\n      cni {\n        args = { COLOUR = \"red\" }\n      }"))
	m.Run(job("elsewhere", `mode = "cni/wan"`))
	id := m.Await("lan", model.AllocClientStatusRunning, 1)[0].ID
	a, _, err := m.Allocation(m.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := a.NetworkStatus; n == nil || n.InterfaceName != "eth0" || !strings.HasPrefix(n.Address, "10.232.9.") {
		t.Fatalf("the network of the alloc is %+v", n)
	}
	host := a.AllocatedResources.Shared.Ports[0].Value
	machine := []string{"--net=" + m.namespace()}
	answers := func(when string) {
		t.Helper()
		m.Eventually(harness.Patience, when+" the alloc answers", func() bool {
			return m.get(machine, a.NetworkStatus.Address, 8080) == id && m.get(machine, m.address, host) == id && outside(m.address, host) == id
		})
	}
	answers("at first")
	m.Kill()
	answers("without an agent")
	m.Start()
	for _, pid := range m.networkProcesses() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	m.Must("alloc", "restart", id)
	answers("after a kill of everything and a restart of the task")
	if now, _, err := m.Allocation(m.Context(), id, nil); err != nil || now.NetworkStatus == nil || now.NetworkStatus.Address != a.NetworkStatus.Address {
		t.Errorf("the network became %+v, %v", now.NetworkStatus, err)
	}
	if out := m.Must("job", "status", "elsewhere"); !strings.Contains(out, "missing network") {
		t.Errorf("a network that no node has:\n%s", out)
	}
	m.Must("job", "stop", "-purge", "lan")
	m.Eventually(harness.Patience, "nothing is left of the network", func() bool {
		kept, err := filepath.Glob(filepath.Join(m.networkState(), "n*", "*")) // records and namespaces
		if err != nil {
			t.Fatal(err)
		}
		links, err := exec.Command("nsenter", machine[0], "ip", "-br", "link", "show", "type", "veth", "master", "drlan").Output()
		return err == nil && len(kept) == 0 && len(links) == 0
	})
}
