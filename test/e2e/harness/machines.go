// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

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

// Network simulates machines of a cluster on one Linux system: each is a network
// namespace, connected by a bridge. The bridge has its own namespace too, so that
// firewall rules of the machine for bridges, of which Docker adds many, do not
// affect the test.
type Network struct {
	T      *testing.T
	Prefix string // prefix of the names of namespaces and links
	Subnet string // "10.231.7."
	n      int
	// proxies delay connections; see Slow.
	proxies []*proxy
}

func NewNetwork(t *testing.T) *Network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("machines in network namespaces need root")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("machines in network namespaces need %s", tool)
		}
	}
	w := &Network{T: t, n: 1}
	w.claim()
	t.Cleanup(func() { w.IP("netns", "del", w.Prefix+"-sw") })
	t.Cleanup(w.hasten)
	w.IP("-n", w.Prefix+"-sw", "link", "add", "br0", "type", "bridge")
	w.IP("-n", w.Prefix+"-sw", "link", "set", "br0", "up")
	w.IP("link", "add", w.Prefix+"-h", "type", "veth", "peer", "name", "host", "netns", w.Prefix+"-sw")
	w.IP("-n", w.Prefix+"-sw", "link", "set", "host", "master", "br0", "up")
	w.IP("addr", "add", w.Subnet+"1/24", "dev", w.Prefix+"-h")
	w.IP("link", "set", w.Prefix+"-h", "up")
	return w
}

// claim reserves an unused subnet by creating a namespace whose name contains it.
func (w *Network) claim() {
	w.T.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		w.T.Fatal(err)
	}
	taken := fmt.Sprint(addrs)
	for i := range 200 {
		n := (os.Getpid()+i)%250 + 1
		w.Subnet, w.Prefix = fmt.Sprintf("10.231.%d.", n), fmt.Sprintf("drv%d", n)
		if strings.Contains(taken, " "+w.Subnet) || strings.Contains(taken, "["+w.Subnet) {
			continue
		}
		out, err := exec.Command("ip", "netns", "add", w.Prefix+"-sw").CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "File exists") { // any other error than that another test has it
			w.T.Skipf("no network namespace can be made here: %v\n%s", err, out)
		}
	}
	w.T.Fatal("all subnets of 10.231.0.0/16 are in use")
}

func (w *Network) IP(args ...string) {
	w.T.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.T.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Machine adds a machine with an agent, which is not started. config sets the
// agent's role; everything else, including ports, has its default.
func (w *Network) Machine(name, config string) *Agent {
	w.T.Helper()
	w.n++
	ns, address := fmt.Sprintf("%s-%d", w.Prefix, w.n), fmt.Sprintf("%s%d", w.Subnet, w.n)
	w.IP("netns", "add", ns)
	w.T.Cleanup(func() { w.IP("netns", "del", ns) })
	w.IP("link", "add", "eth0", "netns", ns, "type", "veth", "peer", "name", ns, "netns", w.Prefix+"-sw")
	w.IP("-n", w.Prefix+"-sw", "link", "set", ns, "master", "br0", "up")
	w.IP("-n", ns, "addr", "add", address+"/24", "dev", "eth0")
	w.IP("-n", ns, "link", "set", "eth0", "up")
	w.IP("-n", ns, "link", "set", "lo", "up")

	dir, err := os.MkdirTemp("", "drover-e2e-")
	if err != nil {
		w.T.Fatal(err)
	}
	a := &Agent{
		T: w.T, Dir: dir, Data: filepath.Join(dir, "data"), Addr: "http://" + address + ":4646",
		Wrap: []string{"nsenter", "--net=/run/netns/" + ns},
	}
	w.T.Cleanup(a.cleanup)
	if a.Client, err = client.New(client.Config{Address: a.Addr}); err != nil {
		w.T.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, fmt.Sprintf("name = %q\nbind_addr = %q\ndata_dir = %q\nplugin_dir = %q\nenable_debug = true\n%s\n", name, address, a.Data, filepath.Join(dir, "plugins"), config))
	a.Plugin("driver-exec", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=2s; exec %s/driver-exec \"$@\"", dir, bin))
	a.Plugin("stats-host", "exec "+bin+"/drover-plugins stats-host")
	return a
}

// Link disconnects a machine from the network, or connects it again.
func (w *Network) Link(a *Agent, state string) {
	w.T.Helper()
	ns := strings.TrimPrefix(a.Wrap[1], "--net=/run/netns/")
	w.IP("-n", w.Prefix+"-sw", "link", "set", ns, state)
}

// RPCAddress returns the address of a machine's rpc port.
func (a *Agent) RPCAddress() string {
	return strings.TrimSuffix(strings.TrimPrefix(a.Addr, "http://"), ":4646") + ":4647"
}

// NodeOf returns the configuration of a node of servers.
func NodeOf(servers ...*Agent) string {
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, fmt.Sprintf("%q", s.RPCAddress()))
	}
	return fmt.Sprintf(`client {
  enabled           = true
  servers           = [%s]
  network_interface = "eth0"
  cpu_total_compute = 20000
  memory_total_mb   = 20000
  disk_total_mb     = 200000
}
plugin "raw_exec" {
  config { enabled = true }
}
`, strings.Join(addresses, ", "))
}

// Secured returns the configuration of mutual TLS.
func Secured(t rpc.TLS) string {
	return fmt.Sprintf(`tls {
  rpc                    = true
  ca_file                = %q
  cert_file              = %q
  key_file               = %q
  verify_server_hostname = %t
}
`, t.CAFile, t.CertFile, t.KeyFile, t.VerifyServerHostname)
}
