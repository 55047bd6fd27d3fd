// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// netMachine is a machine of its own with an agent that makes networks of groups: its
// bridge, links and rules are in a namespace that no other test sees.
type netMachine struct {
	*agent
	address string
}

func newNetMachine(t *testing.T, more ...string) *netMachine {
	t.Helper()
	m := netMachineIn(harness.NewNetwork(t), "node", append(more, `server { enabled = true }`)...)
	m.Start()
	m.offersBridges(1)
	return m
}

// netMachineIn adds such a machine to a network, with an agent that is not started.
func netMachineIn(w *harness.Network, name string, more ...string) *netMachine {
	w.T.Helper()
	if _, err := exec.LookPath("busybox"); err != nil {
		w.T.Skip("the tasks of this test need busybox")
	}
	a := w.Machine(name, `client {
  enabled           = true
  network_interface = "eth0"
  cpu_total_compute = 20000
  memory_total_mb   = 20000
  disk_total_mb     = 200000
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
  bridge_network_name         = "drbridge"
  bridge_network_subnet       = "10.232.7.0/24"
  bridge_network_subnet_ipv6  = "fd00:232::/64"
  bridge_network_hairpin_mode = true
}
plugin "raw_exec" {
  config { enabled = true }
}
`+strings.Join(more, "\n"))
	m := &netMachine{agent: &agent{a}, address: a.IPAddress()}
	if err := os.Symlink(filepath.Join(harness.Bin(), "drover-plugins"), filepath.Join(a.Dir, "plugins", "network-bridge")); err != nil {
		w.T.Fatal(err)
	}
	return m
}

// offersBridges waits until so many nodes are ready and offer bridge networks.
func (m *netMachine) offersBridges(want int) {
	m.T.Helper()
	m.Eventually(harness.Patience, fmt.Sprintf("%d nodes offer bridge networks", want), func() bool {
		nodes, _, err := m.Nodes(m.Context(), nil)
		offer := 0
		for _, stub := range nodes {
			n, _, err := m.Node(m.Context(), stub.ID, nil)
			if err == nil && n.Status == model.NodeStatusReady && slices.ContainsFunc(n.NodeResources.NodeNetworks, func(x *model.NodeNetworkResource) bool { return x.Mode == "bridge" }) {
				offer++
			}
		}
		return err == nil && offer == want
	})
}

// namespace is the path of the machine's network namespace.
func (m *netMachine) namespace() string { return strings.TrimPrefix(m.Wrap[1], "--net=") }

// web is a job whose allocs answer with their ids.
func web(id, kind string, count int, port string) string {
	return fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    count = %d
    restart {
      attempts = 0
      mode     = "fail"
    }

    network {
      mode = "bridge"
      port "http" {
        %s
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR && echo $$ > pid && env > env && echo $NOMAD_ALLOC_ID > index.html && exec busybox httpd -f -p $NOMAD_PORT_http -h ."]
      }
      kill_signal = "SIGTERM"
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, id, kind, count, port)
}

// netAlloc is an alloc of web with what is known of it.
type netAlloc struct {
	id      string
	pid     int
	address string // in its network
	host    int    // the port on the machine
	inside  int    // the port in its network
}

func (m *netMachine) look(id string) netAlloc {
	m.T.Helper()
	var out netAlloc
	m.Eventually(harness.Patience, "the alloc "+id+" has an address", func() bool {
		a, _, err := m.Allocation(m.Context(), id, nil)
		if err != nil || a.NetworkStatus == nil || a.AllocatedResources == nil || len(a.AllocatedResources.Shared.Ports) != 1 {
			return false
		}
		p := a.AllocatedResources.Shared.Ports[0]
		out = netAlloc{id: id, address: a.NetworkStatus.Address, host: p.Value, inside: p.To}
		if out.inside <= 0 {
			out.inside = p.Value
		}
		if a.NetworkStatus.InterfaceName != "eth0" {
			m.T.Fatalf("the alloc's interface is %q", a.NetworkStatus.InterfaceName)
		}
		four, err := netip.ParseAddr(out.address)
		six, err6 := netip.ParseAddr(a.NetworkStatus.AddressIPv6)
		if err != nil || err6 != nil {
			return false
		}
		if !netip.MustParsePrefix("10.232.7.0/24").Contains(four) || !netip.MustParsePrefix("fd00:232::/64").Contains(six) {
			m.T.Fatalf("the addresses %s and %s are not in the subnets of the agent's configuration", four, six)
		}
		return true
	})
	stub := &model.AllocListStub{ID: id}
	out.pid = m.PIDs([]*model.AllocListStub{stub})[id]
	return out
}

// environ is what the task sees.
func (m *netMachine) environ(a netAlloc) map[string]string {
	m.T.Helper()
	out := map[string]string{}
	text, err := os.ReadFile(m.Path(a.id, "t/local/env"))
	if err != nil {
		m.T.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		out[k] = v
	}
	return out
}

// get asks for a page from a namespace: the machine's, or that of a process.
func (m *netMachine) get(enter []string, address string, port int) string {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	args := append(slices.Clone(enter), "busybox", "wget", "-q", "-O", "-", "http://"+net.JoinHostPort(address, fmt.Sprint(port))+"/")
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// outside asks for a page from another machine.
func outside(address string, port int) string {
	c := http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + net.JoinHostPort(address, fmt.Sprint(port)) + "/")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return strings.TrimSpace(fmt.Sprint(string(body), errText(err)))
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// answers waits until all allocs answer on all ways to them.
func (m *netMachine) answers(when string, all ...netAlloc) {
	m.T.Helper()
	machine := []string{"--net=" + m.namespace()}
	ask := func(a netAlloc, way string, do func() string) {
		m.T.Helper()
		var got string
		defer func() {
			if m.T.Failed() {
				m.T.Logf("%s: alloc %s %s answers %q", when, a.id, way, got)
			}
		}()
		m.Eventually(harness.Patience, fmt.Sprintf("%s: alloc %s answers %s", when, a.id, way), func() bool {
			got = do()
			return got == a.id
		})
	}
	for _, a := range all {
		ask(a, "on the machine's address", func() string { return m.get(machine, m.address, a.host) })
		ask(a, "on the machine's loopback", func() string { return m.get(machine, "127.0.0.1", a.host) })
		ask(a, "to another machine", func() string { return outside(m.address, a.host) })
		ask(a, "to the machine on its own address", func() string { return m.get(machine, a.address, a.inside) })
		for _, b := range all { // also to itself: the agent's configuration sets hairpin_mode
			from := []string{"--target", fmt.Sprint(b.pid), "--net"}
			ask(a, "to alloc "+b.id+" on the machine's address", func() string { return m.get(from, m.address, a.host) })
			ask(a, "to alloc "+b.id+" on its own address", func() string { return m.get(from, a.address, a.inside) })
		}
	}
}

// left is what networks have left on the machine.
func (m *netMachine) left() (out []string) {
	m.T.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		m.T.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, m.Dir+"/") && strings.Contains(line, "/netns/") {
			out = append(out, "mount "+line)
		}
	}
	files, err := filepath.Glob(filepath.Join(m.networkState(), "n*", "*"))
	if err != nil {
		m.T.Fatal(err)
	}
	ns, err := netns.GetFromPath(m.namespace())
	if err != nil {
		m.T.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		m.T.Fatal(err)
	}
	defer h.Close()
	links, err := h.LinkList()
	for errors.Is(err, netlink.ErrDumpInterrupted) { // links changed meanwhile
		links, err = h.LinkList()
	}
	if err != nil {
		m.T.Fatal(err)
	}
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().Name != "eth0" {
			out = append(out, "link "+l.Attrs().Name)
		}
	}
	c, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	if err != nil {
		m.T.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		m.T.Fatal(err)
	}
	for _, t := range tables {
		if t.Name != "drover-drbridge" {
			m.T.Fatalf("the table %q is not that of the bridge of the agent's configuration", t.Name)
		}
		out = append(out, "table "+t.Name)
	}
	return append(out, files...)
}

// networkState is the folder in which the plugin keeps its records and namespaces.
func (m *netMachine) networkState() string {
	m.T.Helper()
	var found []string
	_ = filepath.WalkDir(m.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "netns" {
			found = append(found, filepath.Dir(path))
		}
		return nil
	})
	if len(found) != 1 {
		m.T.Fatalf("the folders with namespaces are %v, not one", found)
	}
	return found[0]
}

func TestAllocsOfBridgeNetworksAnswerThroughKillsAndLeaveNothing(t *testing.T) {
	m := newNetMachine(t)
	m.Run(web("static", "system", 1, "static = 18080\nto = 8080"))
	m.Run(web("dynamic", "service", 2, ""))
	var all []netAlloc
	for _, x := range slices.Concat(m.Await("static", model.AllocClientStatusRunning, 1), m.Await("dynamic", model.AllocClientStatusRunning, 2)) {
		all = append(all, m.look(x.ID))
	}
	m.answers("at first", all...)
	if s := all[0]; s.host != 18080 || s.inside != 8080 {
		t.Errorf("the static port leads from %d to %d", s.host, s.inside)
	}
	for _, a := range all {
		m.checkEnviron(a)
	}
	if n := len(m.left()); n < 3*3 { // each has a mount, a record and a link at least
		t.Errorf("%d things are seen of three networks: the check of what is left would see nothing", n)
	}

	m.Kill()
	fmt.Println("killed")
	m.answers("without an agent", all...)
	m.Start()
	m.unchanged("after a kill of the agent", all)

	before := m.networkProcesses()
	if len(before) == 0 {
		t.Fatal("the network plugin has no process")
	}
	for _, pid := range before {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	m.Eventually(harness.Patience, "the network plugin runs again", func() bool {
		now := m.networkProcesses()
		return len(now) > 0 && !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
	})
	m.unchanged("after a kill of the plugin", all)

	m.flush()
	if got := m.get([]string{"--net=" + m.namespace()}, m.address, 18080); got == all[0].id {
		t.Error("the port leads to the alloc without any rule")
	}
	for _, pid := range m.networkProcesses() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	m.Must("alloc", "restart", all[0].id) // it has no second try, and needs none
	m.Eventually(harness.Patience, "the task was started again", func() bool { return !harness.Running(all[0].pid) })
	repaired := m.look(all[0].id)
	if repaired.address != all[0].address {
		t.Errorf("a restart of the task changed the address from %s to %s", all[0].address, repaired.address)
	}
	all[0].pid = repaired.pid
	m.answers("after a restart of a task on a machine without rules", all...)

	m.Must("job", "stop", "-purge", "static")
	gone := all[0]
	m.Eventually(harness.Patience, "only the networks of the other allocs are left", func() bool {
		return !slices.ContainsFunc(m.left(), func(x string) bool { return strings.Contains(x, gone.id) })
	})
	m.answers("after the end of another alloc", all[1:]...)
	m.Must("job", "stop", "-purge", "dynamic")
	m.nothingLeft()
	m.Must("system", "gc")
	m.Eventually(harness.Patience, "the allocs are collected", func() bool {
		_, err := os.Stat(filepath.Join(m.Data, "alloc", gone.id))
		return os.IsNotExist(err)
	})
	m.nothingLeft()
}

func TestAGroupWithoutANetworkIsNotPlacedWhereNothingCanMakeThat(t *testing.T) {
	a := newAgent(t).start()
	for mode, why := range map[string]string{"none": "missing network", "bridge": "${attr.plugins.cni.version.bridge} semver >= 0.4.0"} {
		file := a.Write(mode+".hcl", 0o600, harness.Shell(mode, "service", 1, fmt.Sprintf("network {\nmode = %q\n}", mode), "sleep 600"))
		if out, code := a.CLI("job", "plan", file); code != 1 || !strings.Contains(out, "WARNING: Failed to place") || !strings.Contains(out, why) {
			t.Errorf("mode %s: exit code %d\n%s", mode, code, out)
		}
	}
}

func (m *netMachine) nothingLeft() {
	m.T.Helper()
	var left []string
	defer func() {
		if m.T.Failed() {
			m.T.Logf("left is %q", left)
		}
	}()
	m.Eventually(harness.Patience, "nothing is left of networks", func() bool {
		left = m.left()
		return len(left) == 0
	})
}

// unchanged waits until all allocs answer, and checks that they are those of before.
func (m *netMachine) unchanged(when string, all []netAlloc) {
	m.T.Helper()
	for _, a := range all {
		if now := m.look(a.id); now != a {
			m.T.Errorf("%s the alloc %+v has become %+v", when, a, now)
		}
	}
	m.answers(when, all...)
}

func (m *netMachine) checkEnviron(a netAlloc) {
	m.T.Helper()
	port, inside := fmt.Sprint(a.host), fmt.Sprint(a.inside)
	want := map[string]string{
		"NOMAD_IP_http": m.address, "NOMAD_PORT_http": inside, "NOMAD_ADDR_http": m.address + ":" + port,
		"NOMAD_HOST_IP_http": m.address, "NOMAD_HOST_PORT_http": port, "NOMAD_HOST_ADDR_http": m.address + ":" + port,
		"NOMAD_ALLOC_IP_http": a.address, "NOMAD_ALLOC_PORT_http": inside, "NOMAD_ALLOC_ADDR_http": a.address + ":" + inside,
	}
	got := m.environ(a)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			m.T.Errorf("the task sees %s=%q, not %q", k, got[k], want[k])
		}
	}
}

// networkProcesses are the processes of the network plugin.
func (m *netMachine) networkProcesses() (out []int) {
	for _, pid := range m.Processes("network-") {
		if harness.Running(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// flush removes all rules of the machine, as an operator does who restarts a firewall.
func (m *netMachine) flush() {
	m.T.Helper()
	ns, err := netns.GetFromPath(m.namespace())
	if err != nil {
		m.T.Fatal(err)
	}
	defer ns.Close()
	c, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	if err != nil {
		m.T.Fatal(err)
	}
	c.FlushRuleset()
	if err := c.Flush(); err != nil {
		m.T.Fatal(err)
	}
}

func TestAnAllocWithoutAFreeAddressSaysWhy(t *testing.T) {
	m := newNetMachine(t, `plugin "network-bridge" {
  config {
    bridge_network_name   = "drsmall"
    bridge_network_subnet = "10.232.8.0/29"
  }
}`)
	m.Run(web("five", "service", 5, "to = 8080")) // eight without the network, the bridge and the broadcast address
	m.Await("five", model.AllocClientStatusRunning, 5)
	m.Run(strings.Replace(web("sixth", "service", 1, "to = 8080"), "attempts = 0\n      mode     = \"fail\"", "attempts = 100\n      delay    = \"1s\"\n      interval = \"10m\"", 1))
	m.Eventually(harness.Patience, "the alloc says which subnet is full, and what to do", func() bool {
		all := m.Allocs("sixth", "")
		return len(all) > 0 && strings.Contains(m.Must("alloc", "status", all[0].ID), "every address of the subnet 10.232.8.0/29 is used by an alloc of this node; use a larger bridge_network_subnet")
	})
	m.Must("job", "stop", "-detach", "five")
	m.Await("sixth", model.AllocClientStatusRunning, 1)
}
