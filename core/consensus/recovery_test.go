// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// lost is what is left of a cluster of which only one server, with these words, exists.
type lost struct {
	t     *testing.T
	cfg   consensus.Config
	words []string
}

// loseAllBut stops a cluster for good, except for one server's directory.
func loseAllBut(t *testing.T, snapshot bool) *lost {
	t.Helper()
	c := openCluster(t)
	leader := c.leader()
	var want []string
	for i := range 20 {
		word := fmt.Sprintf("w%d", i)
		propose(t, c.nodes[leader], word)
		want = append(want, word)
		if snapshot && i == 10 {
			if _, r, err := c.nodes[leader].TakeSnapshot(t.Context()); err != nil || r.Close() != nil {
				t.Fatal(err)
			}
		}
	}
	for id, n := range c.nodes {
		closeNode(t, n)
		delete(c.nodes, id)
	}
	return &lost{t, c.configs[leader], want}
}

func (l *lost) file(name string) string { return filepath.Join(l.cfg.DataDir, name) }

func (l *lost) write(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.file("peers.json"), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// alone writes a peers.json with the server itself.
func (l *lost) alone() {
	l.write(fmt.Sprintf(`[{"id": %q, "address": "127.0.0.1:4647"}]`, l.cfg.NodeID))
}

func (l *lost) open() (*consensus.Node, *words, error) {
	l.t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	cfg := l.cfg
	w := &words{}
	cfg.Listener, cfg.Machine, cfg.Bootstrap, cfg.Expected = socket, w, nil, true
	n, err := consensus.Open(cfg)
	if err != nil {
		_ = socket.Close() // Open may have closed it
	}
	return n, w, err
}

// recovered opens the server, which must lead with all the words, and closes it.
func (l *lost) recovered() {
	l.t.Helper()
	n, w, err := l.open()
	if err != nil {
		l.t.Fatal(err)
	}
	defer closeNode(l.t, n)
	eventually(l.t, "the server leads", func() bool { return n.IsLeader() && n.Barrier(l.t.Context()) == nil })
	if got := w.all(); !slices.Equal(got, l.words) {
		l.t.Errorf("after the recovery: %v", got)
	}
	members, _, err := n.Configuration()
	if err != nil || len(members) != 1 || members[0].ID != l.cfg.NodeID || !members[0].Voter {
		l.t.Errorf("the members are %+v, %v", members, err)
	}
	word := fmt.Sprintf("later%d", len(l.words))
	propose(l.t, n, word)
	l.words = append(l.words, word)
}

func TestAServerGoesOnWithoutTheLostOnesByPeersJSON(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		l := loseAllBut(t, snapshot)
		l.alone()
		l.recovered()
		if _, err := os.Stat(l.file("peers.json")); err == nil {
			t.Error("the file is still there after it was applied")
		}
		if _, err := os.Stat(l.file("peers.json.applied")); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(l.file("peers.info")); err != nil || !strings.Contains(string(text), "peers.json") {
			t.Errorf("peers.info is %q, %v", text, err)
		}
		l.recovered() // without the file
	}
}

func TestARecoveryThatWasInterruptedAnywhereIsRepeated(t *testing.T) {
	t.Run("after the snapshot, before the log was cut", func(t *testing.T) {
		l := loseAllBut(t, true)
		before := t.TempDir()
		copyLog(t, before, l.cfg.DataDir)
		want := slices.Clone(l.words)
		l.alone()
		l.broken(func() { l.swapLog(before) })
		l.words = want
		l.alone()
		l.recovered()
	})
	t.Run("after all, before the file was renamed", func(t *testing.T) {
		l := loseAllBut(t, false)
		l.alone()
		l.broken(func() {})
		l.alone()
		l.recovered()
	})
}

// broken carries out the recovery and nothing after it, then changes what it left behind.
func (l *lost) broken(then func()) {
	l.t.Helper()
	cfg := l.cfg
	cfg.Machine = &words{}
	if err := consensus.RecoverOnly(cfg); err != nil {
		l.t.Fatal(err)
	}
	then()
}

// swapLog puts another log in the place of the server's.
func (l *lost) swapLog(with string) {
	l.t.Helper()
	if err := errors.Join(os.RemoveAll(l.file("log")), os.Remove(l.file("log.mark"))); err != nil {
		l.t.Fatal(err)
	}
	copyLog(l.t, l.cfg.DataDir, with)
}

// copyLog copies the log of a stopped server.
func copyLog(t *testing.T, to, from string) {
	t.Helper()
	mark, err := os.ReadFile(filepath.Join(from, "log.mark"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "log.mark"), mark, 0o600)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(to, "log"), os.DirFS(filepath.Join(from, "log")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPeersJSONWithAnErrorChangesNothingAndSaysWhatToMend(t *testing.T) {
	l := loseAllBut(t, false)
	self := l.cfg.NodeID
	entry := func(id, address string) string { return fmt.Sprintf(`{"id": %q, "address": %q}`, id, address) }
	own := entry(self, "10.0.0.1:4647")
	for text, want := range map[string]string{
		"":                                      "is no list",
		"[]":                                    "lists no server",
		"null":                                  "lists no server",
		"{}":                                    "is no list",
		"[" + own + "] x":                       "more after the end",
		`["10.0.0.1:4647"]`:                     "version 2 of raft's protocol",
		"[" + entry("z", "10.0.0.2:4647") + "]": "this server, whose id is " + self,
		fmt.Sprintf(`[{"id": %q, "address": "10.0.0.1:4647", "non_voter": true}]`, self): "no server in it votes",
		fmt.Sprintf(`[{"id": %q, "address": "10.0.0.1:4647", "nonvoter": true}]`, self):  "nonvoter",
		"[" + own + "," + entry(self, "10.0.0.2:4647") + "]":                             "entry 2: the id",
		"[" + own + "," + entry("z", "10.0.0.1:4647") + "]":                              "entry 2: the address",
		"[" + own + "," + entry("z", "10.0.0.2") + "]":                                   "entry 2: the address \"10.0.0.2\" is not HOST:PORT",
		"[" + own + "," + entry("", "10.0.0.2:4647") + "]":                               "entry 2: the id",
		"[" + own + "," + entry("z", "10.0.0.2:99999") + "]":                             "entry 2: the address",
		"[" + strings.Repeat(entry("z", "10.0.0.2:1")+",", 1<<15) + own + "]":            "more than 1048576 bytes",
	} {
		l.write(text)
		n, _, err := l.open()
		if err == nil {
			closeNode(t, n)
			t.Fatalf("%.80s: the server started", text)
		}
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), l.file("peers.json")) {
			t.Errorf("%.80s: %v", text, err)
		}
		if left, err := os.ReadFile(l.file("peers.json")); err != nil || string(left) != text {
			t.Errorf("%.80s: the file was changed: %v", text, err)
		}
	}
	l.alone()
	l.recovered() // none of them did harm
}

func TestAServerWithoutALogIsNotRecovered(t *testing.T) {
	l := &lost{t: t, cfg: consensus.Config{NodeID: "a", DataDir: t.TempDir(), Dev: true}}
	l.alone()
	if _, _, err := l.open(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "no log to recover") {
		t.Error(err)
	}
}

func TestAnEntryThatCannotBeReadIsNotLostInARecovery(t *testing.T) {
	l := loseAllBut(t, false)
	l.alone()
	cfg := l.cfg
	cfg.Machine = &words{stuck: true}
	if err := consensus.RecoverOnly(cfg); err == nil {
		t.Fatal("the log was replaced by a snapshot without the entry")
	}
	l.recovered()
}
