// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/internal/testkit"
)

// packets makes what a stranger may send to the port of the gossip.
type packets struct{ *rand.Rand }

// next is random bytes behind a kind of message, a message of the right form with wild
// values, or several of either in one.
func (p packets) next() []byte {
	kind := byte(p.IntN(16)) // of memberlist; 8 carries a message of serf, 244 is a label
	switch p.IntN(4) {
	case 0:
		return append([]byte{kind}, p.bytes(p.IntN(1200))...)
	case 1:
		return append([]byte{8, byte(p.IntN(12))}, p.form()...)
	case 2: // a compound message: a count, lengths, messages
		inner := p.form()
		out := []byte{7, byte(p.IntN(256))}
		out = binary.BigEndian.AppendUint16(out, uint16(p.IntN(1<<16)))
		return append(append(out, kind), inner...)
	}
	return append([]byte{kind}, p.form()...)
}

func (p packets) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(p.Uint32())
	}
	return out
}

// form is a message of msgpack with fields that memberlist and serf have.
func (p packets) form() []byte {
	wild := []any{nil, 0, -1, uint64(1) << 63, "", "a.global", "b.global", p.bytes(20), []byte{127, 0, 0, 1}, map[string]any{}, []any{nil}, 1e300, true}
	fields := map[string]any{}
	for _, name := range []string{"SeqNo", "Node", "Incarnation", "From", "Addr", "Port", "Meta", "Vsn", "Target", "SourceAddr", "Payload", "Nodes",
		"UserStateLen", "UserMsgLen", "Join", "LTime", "Name", "ID", "Flags", "Timeout", "Prune", "StatusLTimes", "Events", "Algo", "Buf", "CC"} {
		if p.IntN(3) == 0 {
			fields[name] = wild[p.IntN(len(wild))]
		}
	}
	var out bytes.Buffer
	if err := codec.NewEncoder(&out, &codec.MsgpackHandle{}).Encode(fields); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestHostileGossipChangesNothingForOthers(t *testing.T) {
	for name, key := range map[string]string{"with a key": oneKey, "without a key": ""} {
		t.Run(name, func(t *testing.T) {
			adjust := func(c *membership.Config) { c.Dir, c.Key = t.TempDir(), key }
			a, b := start(t, "a", adjust), start(t, "b", adjust)
			b.joins(a)
			a.sees("b.global", membership.Alive)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			p := packets{rand.New(rand.NewPCG(seed, 0))}
			for range testkit.HostileRounds(t, 5) {
				for range 40 {
					send(t, "udp", a.cfg.Listen, p.next())
				}
				send(t, "tcp", a.cfg.Listen, p.next())
			}
			c := start(t, "c", adjust)
			c.joins(a)
			if key != "" { // without one whoever reaches the port may say that a server is gone
				a.sees("b.global", membership.Alive)
			}
			a.sees("c.global", membership.Alive)
		})
	}
}

// TestNoCountOfAStrangerEndsAServer sends headers over TCP whose counts and lengths no message
// can have: 6 exchanges states, 8 carries a message of serf.
func TestNoCountOfAStrangerEndsAServer(t *testing.T) {
	adjust := func(c *membership.Config) { c.Dir, c.Key = t.TempDir(), "" }
	a, b := start(t, "a", adjust), start(t, "b", adjust)
	for _, wild := range []any{-1, int64(-1) << 62, uint64(1) << 40, uint64(1) << 62} {
		for kind, field := range map[byte][]string{6: {"Nodes", "UserStateLen"}, 8: {"UserMsgLen"}} {
			for _, name := range field {
				var out bytes.Buffer
				if err := codec.NewEncoder(&out, &codec.MsgpackHandle{}).Encode(map[string]any{name: wild}); err != nil {
					t.Fatal(err)
				}
				send(t, "tcp", a.cfg.Listen, append([]byte{kind}, out.Bytes()...))
			}
		}
	}
	b.joins(a)
	a.sees("b.global", membership.Alive)
}

func send(t *testing.T, network, to string, data []byte) {
	t.Helper()
	c, err := net.DialTimeout(network, to, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(data) // it may be closed already
}
