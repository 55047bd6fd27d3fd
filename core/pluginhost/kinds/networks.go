// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// NetworkFingerprint is what one network plugin offers. Problem says why networks are
// missing, or that the plugin is away: allocs keep the networks that they have.
type NetworkFingerprint struct {
	Name          string
	Plugin        string
	PluginVersion string
	Networks      []string
	Attributes    map[string]string
	Problem       string
}

// networkLimit bounds one call about the network of an alloc.
const networkLimit = time.Minute

// Networks holds all network plugins.
type Networks struct {
	kind[*networkBackend, network.Fingerprint, *networkSlot]
	cfg Config
}

// networkBackend is a network plugin of one process.
type networkBackend struct {
	network.Backend
	breakers *breaker.Group // by network; "" is for calls about whatever an alloc has left
	calls    sync.WaitGroup // calls about networks in progress
}

// networkSlot is the slot of one network plugin.
type networkSlot struct {
	plain[*networkBackend, network.Fingerprint]
	name    string
	backend *networkBackend // nil while no process serves it
	refused error           // why it makes no new networks
	print   NetworkFingerprint
	offered []string // the networks of the last fingerprint that had some
	looked  bool     // there was a fingerprint, since the agent has started
}

func newNetworks(cfg Config) *Networks {
	n := &Networks{cfg: cfg}
	n.kind = newKind(cfg, spec[*networkBackend, network.Fingerprint, *networkSlot]{
		noun: "network plugin", contracts: []plugin.Kind{network.KindV1},
		connect: n.dial,
		about: func(b *networkBackend) (string, schema.Schema) {
			info := b.Info()
			return info.Name, info.ConfigSchema
		},
		check: func(b *networkBackend) error {
			if b.Info().Name == "" {
				return errdefs.FailedPreconditionf("serves a network plugin without a name; the plugin is defective")
			}
			return nil
		},
		slot: func(b *networkBackend, _ string) *networkSlot { return &networkSlot{name: b.Info().Name} },
		fingerprint: func(b *networkBackend, ctx context.Context) (<-chan network.Fingerprint, error) {
			return b.Fingerprint(ctx)
		},
		present: func(f network.Fingerprint) bool { return len(f.Networks) > 0 },
		show: func(into *Served, all []*networkBackend) {
			for _, b := range all {
				into.Networks = append(into.Networks, b.Backend)
			}
		},
	})
	return n
}

func (n *Networks) dial(ctx context.Context, p *process.Process) (out []*networkBackend, err error) {
	all, err := network.ConnectV1(ctx, p.Conn)
	for _, b := range all {
		plugin := fmt.Sprintf("network plugin %q", b.Info().Name)
		name := func(network string) string {
			if network == "" {
				return plugin
			}
			return fmt.Sprintf("network %q of %s", network, plugin)
		}
		out = append(out, &networkBackend{Backend: b, breakers: breaker.NewGroup(name, n.cfg.Limits.Breaker, n.cfg.Answering)})
	}
	return out, err
}

// Fingerprints returns the newest fingerprint of every network plugin, by name, and a
// channel that is closed when they have changed.
func (n *Networks) Fingerprints() ([]NetworkFingerprint, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]NetworkFingerprint, 0, len(n.byName))
	for _, s := range n.slots() {
		p := s.print
		if p.Name == "" {
			continue // a version that is being tried
		}
		if s.refused != nil {
			p.Networks, p.Problem = nil, s.refused.Error()
		}
		out = append(out, p)
	}
	return out, n.changed
}

// Create makes the network of an alloc, or repairs it. NotFound: no plugin offers the
// network. Unavailable: its plugin is being restarted, or a plugin that may offer it has not
// said so yet. Other errors are the plugin's.
func (n *Networks) Create(ctx context.Context, r network.Request) (a *network.Attachment, err error) {
	b, err := n.maker(r.Network)
	if err != nil {
		return nil, err
	}
	err = b.call(ctx, r.Network, func(ctx context.Context) error {
		a, err = b.Create(ctx, r)
		return err
	})
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("make network %q: %w", r.Network, err))
	}
	return a, nil
}

// maker returns the process that offers a network. The call counts as in progress.
func (n *Networks) maker(name string) (*networkBackend, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	away := ""
	for _, s := range n.slots() {
		if s.backend != nil && s.refused == nil && slices.Contains(s.print.Networks, name) {
			s.backend.calls.Add(1)
			return s.backend, nil
		}
		if slices.Contains(s.offered, name) {
			why := s.print.Problem
			if s.refused != nil {
				why = s.refused.Error()
			}
			away = fmt.Sprintf("network plugin %q, which offers network %q, cannot make it now: %s", s.name, name, why)
		}
		if s.backend != nil && s.refused == nil && !s.looked && away == "" {
			away = fmt.Sprintf("no plugin has said yet that it offers network %q, and network plugin %q has not said what it offers", name, s.name)
		}
	}
	if starting := n.cfg.turns.first(); starting != "" && away == "" {
		away = fmt.Sprintf("no plugin has said yet that it offers network %q, and plugin %q is being started", name, starting)
	}
	if away != "" {
		return nil, errdefs.Unavailablef("%s", away)
	}
	return nil, errdefs.NotFoundf("no plugin on this node offers network %q", name)
}

// Destroy removes what is left of the network of an alloc: it calls each plugin that offers
// the network, or every plugin if none does, because there is no other record of the plugin
// that made it. Unavailable: a plugin that may have made it is away.
func (n *Networks) Destroy(ctx context.Context, name, allocID string) error {
	backends, err := n.makers(name)
	for _, b := range backends {
		if failed := b.call(ctx, name, func(ctx context.Context) error { return b.Destroy(ctx, allocID) }); failed != nil && err == nil {
			err = errdefs.New(errdefs.ClassOf(failed), fmt.Errorf("remove network %q: %w", name, failed))
		}
	}
	return err
}

// makers returns the processes that may have made a network. It returns an error if one of
// them is away.
func (n *Networks) makers(name string) (out []*networkBackend, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.slots()
	if i := slices.IndexFunc(all, func(s *networkSlot) bool { return slices.Contains(s.offered, name) }); i >= 0 {
		all = slices.DeleteFunc(all, func(s *networkSlot) bool { return !slices.Contains(s.offered, name) })
	}
	if len(all) == 0 {
		return nil, errdefs.Unavailablef("no network plugin runs on this node that could remove network %q; put the plugin that made it into plugin_dir again", name)
	}
	for _, s := range all {
		if s.backend == nil {
			err = errdefs.Unavailablef("network plugin %q is away: %s", s.name, s.print.Problem)
			continue
		}
		s.backend.calls.Add(1)
		out = append(out, s.backend)
	}
	return out, err
}

// List returns the ids of all allocs of which a plugin has something left, by the name of
// the network plugin. Plugins that are away are left out.
func (n *Networks) List(ctx context.Context) (map[string][]string, error) {
	n.mu.Lock()
	serving := map[string]*networkBackend{}
	for _, s := range n.slots() {
		if s.backend != nil {
			s.backend.calls.Add(1)
			serving[s.name] = s.backend
		}
	}
	n.mu.Unlock()
	out := map[string][]string{}
	var first error
	for name, b := range serving {
		err := b.call(ctx, "", func(ctx context.Context) error {
			ids, err := b.List(ctx)
			out[name] = ids
			return err
		})
		if err != nil && first == nil {
			first = fmt.Errorf("ask network plugin %q for its networks: %w", name, err)
		}
	}
	return out, first
}

// Sweep makes one network plugin remove what is left of an alloc.
func (n *Networks) Sweep(ctx context.Context, name, allocID string) error {
	n.mu.Lock()
	e := n.byName[name]
	if e == nil || e.slot.backend == nil {
		n.mu.Unlock()
		return errdefs.Unavailablef("network plugin %q is away", name)
	}
	b := e.slot.backend
	b.calls.Add(1)
	n.mu.Unlock()
	return b.call(ctx, "", func(ctx context.Context) error { return b.Destroy(ctx, allocID) })
}

// call makes one call about a network, which its caller has counted as in progress.
func (b *networkBackend) call(ctx context.Context, network string, do func(context.Context) error) error {
	defer b.calls.Done()
	return b.breakers.Of(network).Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, networkLimit)
		defer cancel()
		return do(ctx)
	})
}

func (s *networkSlot) serves(b *networkBackend, from origin, problem error) {
	s.print.Name, s.print.Plugin, s.print.PluginVersion = s.name, from.plugin, from.version
	s.backend = b // even with a wrong config, because existing networks must be removable
	if problem != nil {
		s.print.Networks, s.print.Problem = nil, problem.Error()
	}
}

func (s *networkSlot) lost(b *networkBackend, reason error) {
	if s.backend == b {
		s.backend = nil
	}
	if !quiet(reason) {
		s.print.Networks, s.print.Problem = nil, reason.Error()
	}
}

func (s *networkSlot) drained(ctx context.Context, b *networkBackend) error {
	return ended(ctx, &b.calls, "networks are still being made or removed in the old process")
}

func (s *networkSlot) take(f network.Fingerprint) {
	f = soundNetworks(f)
	s.looked = true
	s.print.Networks, s.print.Attributes, s.print.Problem = f.Networks, f.Attributes, f.Problem
	if len(f.Networks) > 0 {
		s.offered = f.Networks
	}
}

func (s *networkSlot) trouble(err error) {
	s.print.Problem = fmt.Sprintf("cannot be fingerprinted: %v", err)
}

func (s *networkSlot) worse(f network.Fingerprint) error {
	if len(s.print.Networks) > 0 && len(f.Networks) == 0 {
		return errdefs.FailedPreconditionf("the version that runs offers networks and the new one none: %s", f.Problem)
	}
	return nil
}

func (s *networkSlot) refuse(reason error) { s.refused = reason }

func (s *networkSlot) unanswering() (since time.Time, why error) {
	if s.backend == nil {
		return time.Time{}, nil
	}
	return s.backend.breakers.Open()
}

func (s *networkSlot) release() (kept bool) {
	s.backend = nil
	return false
}

func (s *networkSlot) close() {}
