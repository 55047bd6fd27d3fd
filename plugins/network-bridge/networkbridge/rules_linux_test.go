// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

func http(port int) network.Port { return network.Port{Label: "http", HostPort: port, Port: 8080} }

// answers checks what a port of the machine's loopback answers.
func (b *bed) answers(port int, want, why string) {
	b.t.Helper()
	if got, err := ask(fmt.Sprintf("127.0.0.1:%d", port)); got != want || err != nil {
		b.t.Errorf("%s: the port answers %q, %v; want %q", why, got, err, want)
	}
}

func (b *bed) destroy(n *networkbridge.Network, id string) {
	b.t.Helper()
	if err := n.Destroy(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
}

// nft runs a script of nftables.
func nft(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %s\n%s", out, script)
	}
	return string(out)
}

func TestAPortThatWasGivenAwayAgainLeadsToTheNewerAlloc(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29483
	old := b.create(n, "old", http(port))
	serve(t, old.Path, 8080, "old")
	b.answers(port, "old", "alone")
	young := b.create(n, "aa", http(port)) // before the other one by its name
	serve(t, young.Path, 8080, "young")
	b.answers(port, "young", "beside the older")
	b.create(b.fresh(), "old", http(port)) // as before each start of a task
	b.answers(port, "young", "after the older was asked for again")
	b.destroy(n, "old")
	b.answers(port, "young", "after the older was destroyed")
	if _, err := n.Inspect(t.Context(), "aa"); err != nil {
		t.Error(err)
	}
}

func TestPortsThatAnAllocNoLongerHasLeadNowhere(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29484
	a := b.create(n, "a", http(port), http(port+1))
	serve(t, a.Path, 8080, "here")
	b.create(n, "a", http(port+1))
	b.answers(port+1, "here", "which stayed")
	if got, err := ask(fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Errorf("a port that the alloc had before answers %q", got)
	}
	b.destroy(n, "a")
	if out, err := exec.Command("nft", "list", "ruleset").CombinedOutput(); err != nil || strings.Contains(string(out), b.bridge) {
		t.Errorf("%v: what is left: %s", err, out)
	}
}

// TestTheRulesOfAnEarlierVersionAreReplaced begins with what version 0.1.0 wrote: a rule for
// each port.
func TestTheRulesOfAnEarlierVersionAreReplaced(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29486
	a := b.create(n, "a", http(port))
	serve(t, a.Path, 8080, "here")
	own, _, _ := strings.Cut(a.Addresses[0].Prefix, "/")
	earlier := fmt.Sprintf(`table ip drover-%[1]s
delete table ip drover-%[1]s
table ip drover-%[1]s {
  chain ports { tcp dport %[2]d dnat to %[3]s:8080; udp dport %[2]d dnat to %[3]s:8080; tcp dport 29487 dnat to %[3]s:8080; }
  chain prerouting { type nat hook prerouting priority -100; fib daddr type local jump ports; }
  chain output { type nat hook output priority -100; fib daddr type local jump ports; }
}`, b.bridge, port, own)
	for what, call := range map[string]func(){
		"a network is made": func() { b.create(b.fresh(), "c", http(port+2)) },
		"one is repaired":   func() { b.create(b.fresh(), "a", http(port)) },
		"one is destroyed":  func() { b.destroy(b.fresh(), "c") },
	} {
		b.create(b.fresh(), "c", http(port+2))
		nft(t, earlier)
		if _, err := n.Inspect(t.Context(), "a"); err == nil {
			t.Errorf("%s: Inspect sees nothing wrong with the rules of an earlier version", what)
		}
		call()
		b.answers(port, "here", what)
		if got, err := ask("127.0.0.1:29487"); err == nil {
			t.Errorf("%s: a port of a rule that no record has answers %q", what, got)
		}
		if _, err := n.Inspect(t.Context(), "a"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPortsOfIPv6LeadToTheAddressOfIPv6(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29489
	prefix := strings.TrimSuffix(b.config["bridge_network_subnet_ipv6"].(string), "/64")
	machine := prefix + "1" // which the bridge has
	a := b.create(n, "a", http(port), network.Port{Label: "one", HostIP: machine, HostPort: port + 1, Port: 8081}, network.Port{Label: "four", HostIP: "127.0.0.1", HostPort: port + 2, Port: 8081})
	c := b.create(n, "c")
	for inner, word := range map[int]string{8080: "any", 8081: "one"} {
		var l net.Listener
		if err := inside(t, a.Path, func() (err error) { l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", inner)); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(word))
				conn.Close()
			}
		}()
	}
	for at, want := range map[int]string{port: "any", port + 1: "one"} {
		to := net.JoinHostPort(machine, fmt.Sprint(at))
		if got, err := ask(to); got != want {
			t.Errorf("%s from the machine: %q, %v", to, got, err)
		}
		if err := inside(t, c.Path, func() error {
			got, err := ask(to)
			if got != want {
				t.Errorf("%s from another alloc: %q, %v", to, got, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if got, err := ask(net.JoinHostPort(machine, fmt.Sprint(port+2))); err == nil {
		t.Errorf("a port of an address of IPv4 answers %q on one of IPv6", got)
	}
}

func TestADestroyedNetworkIsOffTheBridgeThoughAProcessKeepsItsNamespace(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	a := b.create(n, "a", http(29493))
	keeper := exec.Command("nsenter", "--net="+a.Path, "sleep", "1000")
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	kept := fmt.Sprintf("/proc/%d/ns/net", keeper.Process.Pid)
	for in := false; !in; { // nsenter opens the path only after its start
		own, err := os.Stat(a.Path)
		if err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(kept)
		if err != nil {
			t.Fatal(err)
		}
		in = os.SameFile(own, now)
	}
	var l net.Listener
	if err := inside(t, a.Path, func() (err error) { l, err = net.Listen("tcp4", ":8080"); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b.destroy(n, "a")
	if links, err := exec.Command("ip", "-o", "link", "show", "master", b.bridge).CombinedOutput(); err != nil || len(links) > 0 {
		t.Errorf("links of the bridge: %s, %v", links, err)
	}
	again := b.create(n, "b", http(29493))
	for again.Addresses[0] != a.Addresses[0] { // which is free once its connections are forgotten
		b.destroy(n, "b")
		again = b.create(n, "b", http(29493))
	}
	serve(t, again.Path, 8080, "next")
	for range 20 {
		b.answers(29493, "next", "beside what is kept")
	}
	if err := inside(t, kept, func() error {
		if got, err := ask(strings.TrimSuffix(again.Addresses[0].Gateway, "\n") + ":22"); err == nil {
			t.Errorf("from the kept namespace the machine answers %q", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	_ = keeper.Process.Kill()
	_ = keeper.Wait()
	l.Close()
	mine := regexp.MustCompile("drv[0-9a-f]{12}@if[0-9]+:.*state DOWN")
	limit := time.After(time.Minute)
	for { // the kernel removes it in its own time
		links, err := exec.Command("ip", "-o", "link").CombinedOutput()
		if err == nil && !mine.Match(links) {
			return
		}
		select {
		case <-limit:
			t.Fatalf("the link has outlived the process: %s, %v", links, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestNothingIsLeftWhereverThePluginIsKilled kills the plugin's process in the middle of calls.
// Another alloc keeps its port all the time.
func TestNothingIsLeftWhereverThePluginIsKilled(t *testing.T) {
	b := newBed(t)
	binary := filepath.Join(t.TempDir(), "network-bridge")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	n := b.fresh()
	const port = 29495
	other := b.create(n, "other", http(port))
	serve(t, other.Path, 8080, "other")
	request := network.Request{AllocID: "a", Network: "bridge", Ports: []network.Port{http(port + 1)}}
	for i := range 16 {
		cmd := exec.Command(binary)
		cmd.Dir = b.dir
		conn, die := plugintest.Launch(t, cmd)
		all, err := network.Connect(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[0].SetConfig(t.Context(), b.body()); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 { // Destroy is killed, otherwise Create
			if _, err := n.Create(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if i%2 == 1 {
				_ = all[0].Destroy(ctx, request.AllocID) // it fails when the process dies
				return
			}
			_, _ = all[0].Create(ctx, request)
		}()
		select { // spread over the time that a call takes
		case <-done:
		case <-time.After(time.Duration(i/2) * 3 * time.Millisecond):
		}
		die()
		<-done
		if i%4 < 2 { // a repeated call first, or Destroy at once
			if _, err := n.Create(t.Context(), request); err != nil {
				t.Fatalf("%d: Create after the kill: %v", i, err)
			}
		}
		b.destroy(n, request.AllocID)
		b.answers(port, "other", fmt.Sprintf("kill %d", i))
	}
	links, _ := exec.Command("ip", "-o", "link", "show", "master", b.bridge).CombinedOutput()
	if got := strings.Count(string(links), "\n"); got != 1 {
		t.Errorf("the bridge has %d links, and one alloc: %s", got, links)
	}
	if rules, _ := exec.Command("nft", "list", "table", "ip", "drover-"+b.bridge).CombinedOutput(); strings.Contains(string(rules), fmt.Sprint(port+1)) {
		t.Errorf("a port of a destroyed network is left: %s", rules)
	}
	b.destroy(n, "other")
	if rules, _ := exec.Command("nft", "list", "ruleset").CombinedOutput(); strings.Contains(string(rules), b.bridge) {
		t.Errorf("rules are left: %s", rules)
	}
}
