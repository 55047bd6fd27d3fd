// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/drover-project/drover/core/autopilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/membership"
)

const (
	// progressQuestion asks servers how far they are.
	progressQuestion = "progress"
	// askEvery is how often the leader asks, and askPatience how long it waits.
	askEvery    = time.Second
	askPatience = 500 * time.Millisecond
	// stepTimeout limits one change of the members.
	stepTimeout = 5 * time.Second
)

// pilot is what the leader knows of the servers' health.
type pilot struct {
	mu      sync.Mutex
	reports map[string]autopilot.Report // by server id
	stable  map[string]time.Time        // by server id: healthy since
}

// answer answers other servers' questions.
func (s *Server) answer(question string) []byte {
	if question != progressQuestion {
		return nil
	}
	p := s.raft.Progress()
	if !p.Heard {
		p.LastContact = time.Hour
	}
	text, err := json.Marshal(autopilot.Report{LastIndex: p.LastIndex, LastTerm: p.LastTerm, LastContact: p.LastContact})
	if err != nil {
		return nil
	}
	return text
}

// steer keeps the members of raft tidy while this server leads.
func (s *Server) steer(ctx context.Context) {
	m := s.members.Load()
	if m == nil {
		return
	}
	s.pilot.reset()
	defer s.pilot.reset()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := m.Changed()
		s.askProgress(m)
		for s.steerOnce(ctx, m) {
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-tick.C:
		}
	}
}

// steerOnce makes one change of the members, and reports whether there may be more.
func (s *Server) steerOnce(ctx context.Context, m *membership.Membership) bool {
	scene, err := s.scene(m)
	if err != nil || ctx.Err() != nil {
		return false
	}
	step := autopilot.Decide(scene, s.autopilot)
	if step == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	switch step.Verb {
	case autopilot.Remove:
		err = s.raft.RemoveServer(ctx, step.ID)
	default:
		err = s.raft.AddServer(ctx, consensus.Server{ID: step.ID, Address: step.Address, Voter: step.Voter || step.Verb == autopilot.Promote})
	}
	fields := []any{"verb", string(step.Verb), "server", step.Name, "id", step.ID, "address", step.Address, "because", step.Why}
	if err != nil {
		s.cfg.Logger.Warn("the members of the cluster could not be changed; the next look tries again", append(fields, "error", err)...)
		return false
	}
	s.cfg.Logger.Info("the members of the cluster have changed", fields...)
	return true
}

// scene gathers what autopilot decides on.
func (s *Server) scene(m *membership.Membership) (autopilot.Scene, error) {
	servers, _, err := s.raft.Configuration()
	if err != nil {
		return autopilot.Scene{}, err
	}
	progress := s.raft.Progress()
	out := autopilot.Scene{Now: time.Now(), Self: s.who.id, LastIndex: progress.LastIndex, Term: progress.LastTerm}
	for _, p := range servers {
		out.Peers = append(out.Peers, autopilot.Peer{ID: p.ID, Address: p.Address, Voter: p.Voter})
	}
	for _, f := range m.Members() {
		out.Found = append(out.Found, autopilot.Found{
			ID: f.ID, Name: f.Name, Address: f.RPC,
			Alive: f.Status == membership.Alive, Left: f.Status == membership.Left || f.Status == membership.Leaving,
		})
	}
	s.pilot.look(&out, s.autopilot)
	return out, nil
}

// look adds the reports, and since when servers are healthy.
func (p *pilot) look(scene *autopilot.Scene, c autopilot.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	scene.Reports, scene.StableSince = map[string]autopilot.Report{}, map[string]time.Time{}
	for id, r := range p.reports {
		scene.Reports[id] = r
	}
	for _, peer := range scene.Peers {
		since, known := p.stable[peer.ID]
		switch {
		case !c.Healthy(*scene, peer.ID):
			delete(p.stable, peer.ID)
			continue
		case !known:
			since = scene.Now
			p.stable[peer.ID] = since
		}
		scene.StableSince[peer.ID] = since
	}
}

func (p *pilot) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports, p.stable = map[string]autopilot.Report{}, map[string]time.Time{}
}

// askProgress asks all servers how far they are.
func (s *Server) askProgress(m *membership.Membership) {
	answers, err := m.Ask(progressQuestion, askPatience)
	if err != nil {
		s.cfg.Logger.Debug("the other servers were not asked how far they are", "error", err)
		return
	}
	names := map[string]string{}
	for _, f := range m.Members() {
		names[f.Name] = f.ID
	}
	s.pilot.mu.Lock()
	defer s.pilot.mu.Unlock()
	for name, text := range answers {
		var r autopilot.Report
		if json.Unmarshal(text, &r) == nil && names[name] != "" {
			r.At = time.Now()
			s.pilot.reports[names[name]] = r
		}
	}
}

// ServersHealth is how the leader sees the servers.
type ServersHealth struct {
	autopilot.Scene
	autopilot.Config
}

// Health returns how the servers are, as the leader sees it; false if this server does
// not lead or does not gossip.
func (s *Server) Health() (ServersHealth, bool) {
	m := s.members.Load()
	if m == nil || !s.Leads() {
		return ServersHealth{}, false
	}
	scene, err := s.scene(m)
	return ServersHealth{Scene: scene, Config: s.autopilot}, err == nil
}
