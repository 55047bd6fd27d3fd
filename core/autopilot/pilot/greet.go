// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/membership"
)

// greetPatience is the time limit for a connection to a server that is no member yet.
const greetPatience = 2 * time.Second

// greet connects to the servers that gossip and are no members yet. One that the leader cannot
// reach, because its certificate or the address that it advertises is wrong, must not become a
// member: it would be asked for ever, and count among the servers.
func (p *Pilot) greet(m *membership.Membership) {
	if p.cfg.Dial == nil {
		return
	}
	servers, _, err := p.cfg.Raft.Configuration()
	if err != nil {
		return
	}
	strangers := slices.DeleteFunc(m.Members(), func(f membership.Member) bool {
		return f.Status != membership.Alive || slices.ContainsFunc(servers, func(s consensus.Server) bool { return s.ID == f.ID })
	})
	answers := p.knockAll(strangers)
	greeted := map[string]string{}
	for i, f := range strangers {
		why := answers[i]
		if before, _ := p.before(f.ID); why != "" && before == "" {
			p.cfg.Logger.Warn("a server gossips but cannot become a member, since this server, the leader, cannot connect to it for raft; it is tried again: check its certificate (drover tls cert info), and the address that it advertises",
				"server", f.Name, "address", f.RPC, "error", why)
		}
		greeted[f.ID] = why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeted = greeted
}

// knockAll returns for each server why it cannot be reached, "" if it can. It tries them
// together, so that one that is silent does not delay the others.
func (p *Pilot) knockAll(servers []membership.Member) []string {
	answers := make([]string, len(servers))
	var knocks sync.WaitGroup
	for i, s := range servers {
		knocks.Go(func() { answers[i] = p.knock(s.RPC) })
	}
	knocks.Wait()
	return answers
}

// knock returns why a server cannot be reached, "" if it can.
func (p *Pilot) knock(address string) string {
	conn, err := p.cfg.Dial(address, greetPatience)
	if err != nil {
		return err.Error()
	}
	_ = conn.Close() // nothing was sent
	return ""
}

func (p *Pilot) before(id string) (why string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	why, known = p.greeted[id]
	return why, known
}

// outOfReach reports whether the leader could not reach a server, or has not tried yet.
func (p *Pilot) outOfReach(id string) bool {
	why, known := p.before(id)
	return p.cfg.Dial != nil && (!known || why != "")
}
