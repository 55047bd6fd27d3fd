// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pilot carries out, on the leader, what core/autopilot decides: it asks the servers
// how far they are, knows since when each is healthy, and makes one change of raft's
// members at a time. It also owns what a server tells others for that: its zone, its
// version, and whether it votes. Only core/server imports it.
package pilot

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/autopilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The tags by which a server says how it votes.
const (
	TagZone    = "zone"
	TagUpgrade = "upgrade"
	TagReplica = "replica" // "1" for a server that never votes
)

// needs is the capability level of the command that stores the configuration.
const needs = 2

const (
	// progressQuestion asks servers how far they are.
	progressQuestion = "progress"
	// askEvery is how often the leader asks, and askPatience how long it waits.
	askEvery    = time.Second
	askPatience = 500 * time.Millisecond
	// stepTimeout limits one change of the members.
	stepTimeout = 5 * time.Second
)

// Role is how a server votes, as its operator wants it.
type Role struct {
	// Replica servers never vote.
	Replica bool
	// Zone is the redundancy zone, and Upgrade the version in the operator's configuration;
	// "" if unset.
	Zone, Upgrade string
}

// Tags returns the tags that a server announces.
func (r Role) Tags() map[string]string {
	out := map[string]string{}
	if r.Replica {
		out[TagReplica] = "1"
	}
	if r.Zone != "" {
		out[TagZone] = r.Zone
	}
	if r.Upgrade != "" {
		out[TagUpgrade] = r.Upgrade
	}
	return out
}

// Config configures a Pilot. All fields except Members are required.
type Config struct {
	// ID is this server's id.
	ID    string
	Raft  *consensus.Node
	Store *state.Store
	Log   propose.Log
	// Initial is the configuration of a cluster that has none in its state.
	Initial *model.AutopilotConfiguration
	// Leads reports whether this server leads and has begun its term.
	Leads func() bool
	// Dial connects to another server as raft does; nil if nothing is known of that.
	Dial   func(address string, timeout time.Duration) (net.Conn, error)
	Logger hclog.Logger
}

// Pilot changes the members of raft.
type Pilot struct {
	cfg Config
	// yielded is when this server last tried to hand the lead over because its disk is
	// full; used by YieldIfFull only.
	yielded time.Time

	mu         sync.Mutex
	members    *membership.Membership      // nil without gossip
	reports    map[string]autopilot.Report // by server id
	stable     map[string]time.Time        // by server id: healthy since
	handedOver time.Time
	greeted    map[string]string // by server id: why a server that is no member cannot be reached, "" if it can
}

// New returns a Pilot. It knows no other servers until Find is called.
func New(cfg Config) *Pilot {
	p := &Pilot{cfg: cfg}
	p.reset()
	return p
}

// Find gives the Pilot the Membership that finds the other servers. It must be called
// before Run.
func (p *Pilot) Find(m *membership.Membership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = m
}

func (p *Pilot) gossip() *membership.Membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members
}

// Configuration returns the configuration in force: the one in the state, or else the
// initial one.
func (p *Pilot) Configuration() *model.AutopilotConfiguration {
	if c := p.cfg.Store.View().AutopilotConfig(); c != nil {
		return c
	}
	return p.cfg.Initial
}

// Answer answers other servers' questions.
func (p *Pilot) Answer(question string) []byte {
	if question != progressQuestion {
		return nil
	}
	at := p.cfg.Raft.Progress()
	if !at.Heard {
		at.LastContact = time.Hour
	}
	text, err := json.Marshal(autopilot.Report{LastIndex: at.LastIndex, LastTerm: at.LastTerm, LastContact: at.LastContact})
	if err != nil {
		return nil
	}
	return text
}

// Run steers while this server leads, until ctx ends.
func (p *Pilot) Run(ctx context.Context) {
	p.reset()
	defer p.reset()
	m := p.gossip()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		configured := p.cfg.Store.Watch(watching, state.Key{Table: state.TableAutopilotConfig})
		p.configure(ctx)
		var changed <-chan struct{}
		if m != nil {
			changed = m.Changed()
			p.ask(m)
			p.greet(m)
			for p.step(ctx, m) {
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-configured:
		case <-tick.C:
		}
		stop()
	}
}

// configure stores the initial configuration in a cluster that has none: a new one, or one
// from a release without autopilot.
func (p *Pilot) configure(ctx context.Context) {
	view := p.cfg.Store.View()
	if view.AutopilotConfig() != nil || view.Level() < needs {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	first := *p.cfg.Initial
	_, err := propose.Commands(ctx, p.cfg.Log, &fsm.SetAutopilotConfig{Config: &first, CAS: true})
	if err != nil && ctx.Err() == nil && !errdefs.IsConflict(err) {
		p.cfg.Logger.Warn("the configuration of autopilot could not be stored; it is tried again", "error", err)
	}
}

// step makes one change of the members, and reports whether there may be more.
func (p *Pilot) step(ctx context.Context, m *membership.Membership) bool {
	conf := p.Configuration()
	scene, err := p.scene(m, conf)
	if err != nil || ctx.Err() != nil {
		return false
	}
	step := autopilot.Decide(scene, conf)
	if step == nil {
		return false
	}
	fields := []any{"verb", string(step.Verb), "server", step.Name, "id", step.ID, "address", step.Address, "because", step.Why}
	if err := p.carryOut(ctx, step); err != nil {
		p.cfg.Logger.Warn("the members of the cluster could not be changed; the next look tries again", append(fields, "error", err)...)
		return false
	}
	p.cfg.Logger.Info("the members of the cluster have changed", fields...)
	return true
}

func (p *Pilot) carryOut(ctx context.Context, step *autopilot.Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	switch step.Verb {
	case autopilot.Remove:
		return p.cfg.Raft.RemoveServer(ctx, step.ID)
	case autopilot.Demote:
		return p.cfg.Raft.DemoteServer(ctx, step.ID)
	case autopilot.HandOver:
		p.mu.Lock()
		p.handedOver = time.Now()
		p.mu.Unlock()
		return p.cfg.Raft.TransferLeadership(ctx, step.ID)
	}
	return p.cfg.Raft.AddServer(ctx, consensus.Server{ID: step.ID, Address: step.Address, Voter: step.Voter || step.Verb == autopilot.Promote})
}

// scene gathers the input of autopilot's decision.
func (p *Pilot) scene(m *membership.Membership, conf *model.AutopilotConfiguration) (autopilot.Scene, error) {
	servers, _, err := p.cfg.Raft.Configuration()
	if err != nil {
		return autopilot.Scene{}, err
	}
	at := p.cfg.Raft.Progress()
	out := autopilot.Scene{Now: time.Now(), Self: p.cfg.ID, Beat: p.cfg.Raft.LongestPause(), LastIndex: at.LastIndex, Term: at.LastTerm}
	for _, s := range servers {
		out.Peers = append(out.Peers, autopilot.Peer{ID: s.ID, Address: s.Address, Voter: s.Voter})
	}
	for _, f := range m.Members() {
		out.Found = append(out.Found, autopilot.Found{
			ID: f.ID, Name: f.Name, Address: f.RPC,
			Alive: f.Status == membership.Alive, Left: f.Status == membership.Left || f.Status == membership.Leaving, OutOfReach: p.outOfReach(f.ID),
			Replica: f.Tags[TagReplica] == "1", Zone: f.Tags[TagZone], Release: f.Version, Upgrade: f.Tags[TagUpgrade],
		})
	}
	p.look(&out, conf)
	return out, nil
}

// look adds the reports, and since when servers are healthy.
func (p *Pilot) look(scene *autopilot.Scene, conf *model.AutopilotConfiguration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	scene.Reports, scene.StableSince, scene.HandedOver = map[string]autopilot.Report{}, map[string]time.Time{}, p.handedOver
	for id, r := range p.reports {
		scene.Reports[id] = r
	}
	for _, peer := range scene.Peers {
		since, known := p.stable[peer.ID]
		switch {
		case !scene.Healthy(conf, peer.ID):
			delete(p.stable, peer.ID)
			continue
		case !known:
			since = scene.Now
			p.stable[peer.ID] = since
		}
		scene.StableSince[peer.ID] = since
	}
}

func (p *Pilot) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports, p.stable = map[string]autopilot.Report{}, map[string]time.Time{}
}

// ask asks all servers how far they are.
func (p *Pilot) ask(m *membership.Membership) {
	answers, err := m.Ask(progressQuestion, askPatience)
	if err != nil {
		p.cfg.Logger.Debug("the other servers were not asked how far they are", "error", err)
		return
	}
	names := map[string]string{}
	for _, f := range m.Members() {
		names[f.Name] = f.ID
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, text := range answers {
		var r autopilot.Report
		if json.Unmarshal(text, &r) == nil && names[name] != "" {
			id := names[name]
			r.At, r.Earlier = time.Now(), p.reports[id].LastContact
			p.reports[id] = r
		}
	}
}

// Health is how the leader sees the servers.
type Health struct {
	autopilot.Scene
	*autopilot.Config
}

// Health returns how the servers are, as the leader sees it; false if this server does not
// lead or does not gossip.
func (p *Pilot) Health() (Health, bool) {
	m := p.gossip()
	if m == nil || !p.cfg.Leads() {
		return Health{}, false
	}
	conf := p.Configuration()
	scene, err := p.scene(m, conf)
	return Health{Scene: scene, Config: conf}, err == nil
}

// Successor returns the voter to which this leader should hand over: see
// autopilot.Successor. It returns "" if there is none, or if nothing is known of the
// other servers.
func (p *Pilot) Successor(wanted func(id string) bool) string {
	h, leads := p.Health()
	if !leads {
		return ""
	}
	return autopilot.Successor(h.Scene, h.Config, wanted)
}

// CanLead returns the other voters to which this leader can hand over without a long pause.
// Without gossip it knows no server's health, so it returns all of them.
func (p *Pilot) CanLead() (ids []string, err error) {
	servers, _, err := p.cfg.Raft.Configuration()
	if err != nil {
		return nil, err
	}
	h, leads := p.Health()
	for _, s := range servers {
		if s.Voter && s.ID != p.cfg.ID && (p.gossip() == nil || leads && h.Healthy(h.Config, s.ID)) {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}
