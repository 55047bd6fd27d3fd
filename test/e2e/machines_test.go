// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/rpc"
)

// network simulates machines of a cluster on one Linux system: each is a network
// namespace, connected by a bridge. The bridge has its own namespace too, so that
// firewall rules of the machine for bridges, of which Docker adds many, do not
// affect the test.
type network struct {
	t      *testing.T
	prefix string // prefix of the names of namespaces and links
	subnet string // "10.231.7."
	n      int
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("machines in network namespaces need root")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("machines in network namespaces need %s", tool)
		}
	}
	w := &network{t: t, n: 1}
	w.claim()
	t.Cleanup(func() { w.ip("netns", "del", w.prefix+"-sw") })
	w.ip("-n", w.prefix+"-sw", "link", "add", "br0", "type", "bridge")
	w.ip("-n", w.prefix+"-sw", "link", "set", "br0", "up")
	w.ip("link", "add", w.prefix+"-h", "type", "veth", "peer", "name", "host", "netns", w.prefix+"-sw")
	w.ip("-n", w.prefix+"-sw", "link", "set", "host", "master", "br0", "up")
	w.ip("addr", "add", w.subnet+"1/24", "dev", w.prefix+"-h")
	w.ip("link", "set", w.prefix+"-h", "up")
	return w
}

// claim reserves an unused subnet by creating a namespace whose name contains it.
func (w *network) claim() {
	w.t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		w.t.Fatal(err)
	}
	taken := fmt.Sprint(addrs)
	for i := range 200 {
		n := (os.Getpid()+i)%250 + 1
		w.subnet, w.prefix = fmt.Sprintf("10.231.%d.", n), fmt.Sprintf("drv%d", n)
		if strings.Contains(taken, " "+w.subnet) || strings.Contains(taken, "["+w.subnet) {
			continue
		}
		out, err := exec.Command("ip", "netns", "add", w.prefix+"-sw").CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "File exists") { // any other error than that another test has it
			w.t.Skipf("no network namespace can be made here: %v\n%s", err, out)
		}
	}
	w.t.Fatal("all subnets of 10.231.0.0/16 are in use")
}

func (w *network) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// machine adds a machine with an agent, which is not started. config sets the
// agent's role; everything else, including ports, has its default.
func (w *network) machine(name, config string) *agent {
	w.t.Helper()
	w.n++
	ns, address := fmt.Sprintf("%s-%d", w.prefix, w.n), fmt.Sprintf("%s%d", w.subnet, w.n)
	w.ip("netns", "add", ns)
	w.t.Cleanup(func() { w.ip("netns", "del", ns) })
	w.ip("link", "add", "eth0", "netns", ns, "type", "veth", "peer", "name", ns, "netns", w.prefix+"-sw")
	w.ip("-n", w.prefix+"-sw", "link", "set", ns, "master", "br0", "up")
	w.ip("-n", ns, "addr", "add", address+"/24", "dev", "eth0")
	w.ip("-n", ns, "link", "set", "eth0", "up")
	w.ip("-n", ns, "link", "set", "lo", "up")

	dir, err := os.MkdirTemp("", "drover-e2e-")
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{
		t: w.t, dir: dir, data: filepath.Join(dir, "data"), addr: "http://" + address + ":4646",
		wrap: []string{"nsenter", "--net=/run/netns/" + ns},
	}
	w.t.Cleanup(a.cleanup)
	if a.Client, err = client.New(client.Config{Address: a.addr}); err != nil {
		w.t.Fatal(err)
	}
	a.write("agent.hcl", 0o600, fmt.Sprintf("name = %q\nbind_addr = %q\ndata_dir = %q\nplugin_dir = %q\nenable_debug = true\n%s\n", name, address, a.data, filepath.Join(dir, "plugins"), config))
	a.plugin("driver-exec", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=2s; exec %s/driver-exec \"$@\"", dir, bin))
	a.plugin("stats-host", "exec "+bin+"/drover-plugins stats-host")
	return a
}

// link disconnects a machine from the network, or connects it again.
func (w *network) link(a *agent, state string) {
	w.t.Helper()
	ns := strings.TrimPrefix(a.wrap[1], "--net=/run/netns/")
	w.ip("-n", w.prefix+"-sw", "link", "set", ns, state)
}

// at returns the address of a machine's rpc port.
func (a *agent) at() string {
	return strings.TrimSuffix(strings.TrimPrefix(a.addr, "http://"), ":4646") + ":4647"
}

// nodeOf returns the configuration of a node of a server.
func nodeOf(server *agent) string {
	return fmt.Sprintf(`client {
  enabled           = true
  servers           = [%q]
  network_interface = "eth0"
  cpu_total_compute = 20000
  memory_total_mb   = 20000
  disk_total_mb     = 200000
}
plugin "raw_exec" {
  config { enabled = true }
}
`, server.at())
}

// secured returns the configuration of mutual TLS.
func secured(t rpc.TLS) string {
	return fmt.Sprintf(`tls {
  rpc                    = true
  ca_file                = %q
  cert_file              = %q
  key_file               = %q
  verify_server_hostname = %t
}
`, t.CAFile, t.CertFile, t.KeyFile, t.VerifyServerHostname)
}
