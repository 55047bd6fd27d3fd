// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// look lets a plugin look at the machine once.
func (b *bed) look(n *networkbridge.Network) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	all, err := n.Fingerprint(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if f := <-all; f.Problem != "" {
		b.t.Error(f.Problem)
	}
}

// passing returns the handles of the bridge's rules in the chain FORWARD of iptables.
func (b *bed) passing() (out []string) {
	body, _ := exec.Command("nft", "-a", "list", "chain", "ip", "filter", "FORWARD").Output() // without iptables there is none
	for _, m := range regexp.MustCompile(`(?m)^.*"`+b.bridge+`".* handle (\d+)$`).FindAllStringSubmatch(string(body), -1) {
		out = append(out, m[1])
	}
	return out
}

// Firewalls flush the rules of the machine when they start, and know nothing of the allocs that
// run. Their tasks need not start again for a long time.
func TestRulesThatAnotherProgramHasRemovedComeBackWhileTheAllocRuns(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29485
	a := b.create(n, "a", http(port))
	serve(t, a.Path, 8080, "here")
	b.answers(port, "here", "at first")
	for what, script := range map[string]string{
		"the table":       "delete table ip drover-" + b.bridge,
		"a chain":         fmt.Sprintf("flush chain ip drover-%s output", b.bridge),
		"the map's ports": fmt.Sprintf("flush map ip drover-%s ports-any", b.bridge),
	} {
		nft(t, script)
		if word, err := ask(fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			t.Errorf("without %s the port answers %q", what, word)
		}
		b.look(n)
		b.answers(port, "here", what+" is back")
	}
	pass := b.passing()
	for _, handle := range pass {
		nft(t, "delete rule ip filter FORWARD handle "+handle)
	}
	b.look(n)
	if got := b.passing(); len(got) != len(pass) {
		t.Errorf("%d rules let packets pass the chain FORWARD, before there were %d", len(got), len(pass))
	}
	b.destroy(n, "a")
	b.look(n)
	if got := b.passing(); len(got) != 0 {
		t.Errorf("after the end of the alloc %d rules let packets pass", len(got))
	}
}

// machine makes a namespace that stands for the machine, and returns its path.
func machine(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("drm%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("a namespace cannot be made: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	return "/run/netns/" + name
}

func TestWhatTheKernelMustDoForAllocsIsSetAgainAndItsOwnRoutesStay(t *testing.T) {
	b := newBed(t)
	n, path := b.fresh(), machine(t)
	value := func(key string, set ...string) string {
		file := "/proc/sys/net/" + key
		for _, v := range set {
			if err := os.WriteFile(file, []byte(v), 0); err != nil {
				t.Error(err)
			}
		}
		body, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(body))
	}
	if err := inside(t, path, func() error {
		if out, err := exec.Command("ip", "link", "add", "uplink", "type", "veth", "peer", "other").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		value("ipv6/conf/uplink/accept_ra", "1")
		value("ipv6/conf/other/accept_ra", "0")
		value("ipv6/conf/all/forwarding", "0")
		if _, err := n.Create(t.Context(), network.Request{AllocID: "a", Network: "bridge"}); err != nil {
			return err
		}
		for key, want := range map[string]string{
			"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv6/conf/uplink/accept_ra": "2", "ipv6/conf/other/accept_ra": "0",
		} {
			if got := value(key); got != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		value("ipv4/ip_forward", "0")
		if f := n.Look(t.Context()); f.Problem != "" || value("ipv4/ip_forward") != "1" {
			t.Errorf("after another program has turned forwarding off: %q, %s", f.Problem, value("ipv4/ip_forward"))
		}
		return n.Destroy(t.Context(), "a")
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTheChainFORWARDOfIptablesLegacyLetsTheBridgePass(t *testing.T) {
	b := newBed(t)
	n, path := b.fresh(), machine(t)
	rules := func() string {
		out, err := exec.Command("iptables-legacy", "-S", "FORWARD").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	if err := inside(t, path, func() error {
		if out, err := exec.Command("iptables-legacy", "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
			t.Logf("skipped: iptables-legacy cannot be used here: %s", out)
			return nil
		}
		for _, id := range []string{"a", "b"} {
			if _, err := n.Create(t.Context(), network.Request{AllocID: id, Network: "bridge"}); err != nil {
				return err
			}
		}
		if has := rules(); strings.Count(has, b.bridge+" -m comment") != 2 || strings.Count(has, "ACCEPT") != 2 {
			t.Errorf("the chain:\n%s", has)
		}
		for _, id := range []string{"a", "b"} {
			if err := n.Destroy(t.Context(), id); err != nil {
				return err
			}
		}
		if has := rules(); strings.Contains(has, b.bridge) {
			t.Errorf("afterwards the chain is:\n%s", has)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
