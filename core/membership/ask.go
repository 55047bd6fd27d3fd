// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"fmt"
	"time"

	"github.com/hashicorp/serf/serf"
)

// Ask asks all servers a question, and returns the answers by the full name of the
// server that have arrived after patience. An answer may be lost: ask again. Question and
// answer have at most 1,000 bytes.
func (m *Membership) Ask(question string, patience time.Duration) (map[string][]byte, error) {
	if m.alive() == 1 { // no other server would take the question from the queue of the gossip
		return m.ownAnswer(question), nil
	}
	asked, err := m.serf.Query(question, nil, &serf.QueryParam{Timeout: patience})
	if err != nil {
		return nil, fmt.Errorf("ask the other servers for their %s: %w", question, err)
	}
	out := map[string][]byte{}
	for a := range asked.ResponseCh() {
		out[a.From] = a.Payload
		if len(out) == m.alive() {
			asked.Close()
		}
	}
	return out, nil
}

func (m *Membership) ownAnswer(question string) map[string][]byte {
	out := map[string][]byte{}
	if m.cfg.Answer != nil {
		if text := m.cfg.Answer(question); text != nil {
			out[m.serf.LocalMember().Name] = text
		}
	}
	return out
}

func (m *Membership) alive() (n int) {
	for _, s := range m.serf.Members() {
		if s.Status == serf.StatusAlive {
			n++
		}
	}
	return n
}

// answer answers a question of another server, or of this one. The library delivers
// questions while it is still starting, and panics if they are answered then. So they are
// dropped; the asking server repeats them.
func (m *Membership) answer(q *serf.Query) {
	select {
	case <-m.ready:
	default:
		return
	}
	if m.cfg.Answer == nil {
		return
	}
	text := m.cfg.Answer(q.Name)
	if text == nil {
		return
	}
	if err := q.Respond(text); err != nil {
		m.logger.Debug("a question of another server was not answered", "question", q.Name, "error", err)
	}
}
