// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
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
