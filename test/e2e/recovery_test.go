// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestTheLastServerGoesOnByPeersJSONAndNewOnesJoinIt(t *testing.T) {
	s := newServers(t)
	leader := s.leader(s.all...)
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf("acknowledged%d", i))
		s.write(leader, want[i])
	}
	s.same(want...) // on all of them: a server that had not got a write could not keep it
	last := s.without(leader)[0]
	for _, a := range s.all {
		a.Kill() // those other than the last never come back
	}
	raft := filepath.Join(last.Data, "server", "raft")
	id, err := os.ReadFile(filepath.Join(last.Data, "server", "server-id"))
	if err != nil {
		t.Fatal(err)
	}
	peers := last.Write("data/server/raft/peers.json", 0o600, `[{"id": "nobody", "address": "10.0.0.1:4647"}]`)
	last.Launch()
	last.Eventually(harness.Patience, "the server does not start with a wrong peers.json", func() bool {
		return !last.Alive() && strings.Contains(last.Log(), "this server, whose id is "+strings.TrimSpace(string(id)))
	})
	last.Write("data/server/raft/peers.json", 0o600, fmt.Sprintf(`[{"id": %q, "address": %q}]`, strings.TrimSpace(string(id)), last.RPCAddress()))
	last.Launch()
	s.leader(last)
	if _, err := os.Stat(peers); err == nil {
		t.Error("peers.json is still there")
	}
	if _, err := os.Stat(filepath.Join(raft, "peers.info")); err != nil {
		t.Error(err)
	}
	s.all = []*agent{last}
	s.same(want...)
	s.write(last, "later")
	for i := range 2 {
		a := &agent{s.network.Machine(fmt.Sprintf("n%d", i+1), harness.Joining(s.key, "", strings.TrimSuffix(last.RPCAddress(), ":4647")))}
		a.Launch()
		s.all = append(s.all, a)
	}
	s.voters(last, 3)
	s.same(append(want, "later")...)
}
