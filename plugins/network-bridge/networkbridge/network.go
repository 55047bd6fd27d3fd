// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package networkbridge is the network plugin bridge: it makes the networks "bridge" (a
// namespace with an address, behind a bridge of the machine, with port maps and
// masquerading) and "none" (a namespace with a loopback only). It needs no programs: it
// speaks netlink. It owns its records, one file for each alloc in the working directory,
// which are written before anything is made; what is on the machine (namespaces, links,
// rules of nftables) is derived from them. It knows no tasks.
package networkbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/drover-project/drover/plugins/internal/fingerprint"
	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// Version is the version of the plugin.
const Version = "0.2.0"

// The names of the networks.
const (
	bridged  = "bridge"
	isolated = "none"
)

// cniVersion is the version of the CNI specification whose plugin "bridge" does the same
// as this one. Job files of the reference compare with it.
const cniVersion = "1.0.0"

// Main runs the plugin.
func Main() error {
	dir, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	return plugin.Serve(plugin.Info{Name: "network-bridge", Version: Version}, network.Service(New(dir)))
}

// config is the plugin's block in the agent's configuration.
type config struct {
	Name       string `json:"bridge_network_name"`
	Subnet     string `json:"bridge_network_subnet"`
	SubnetIPv6 string `json:"bridge_network_subnet_ipv6"`
	Hairpin    bool   `json:"bridge_network_hairpin_mode"`
}

// settings is a config that was checked.
type settings struct {
	name    string
	subnets []netip.Prefix // IPv4 first
	hairpin bool
	fixed   *sync.Map // indexes of the bridges whose hardware address is fixed
}

// Network is the network plugin.
type Network struct {
	store *store
	flows *forgetter

	mu  sync.Mutex
	set settings
}

var _ network.Network = (*Network)(nil)

// New returns a plugin that keeps its records and namespaces in dir, an absolute path.
func New(dir string) *Network {
	return &Network{store: newStore(dir), flows: newForgetter(forgetFlows), set: settings{name: "nomad", fixed: &sync.Map{}}}
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	return network.Info{Name: "network-bridge", ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "bridge_network_name", Type: schema.String, Default: "nomad", Description: "name of the bridge, which is made if it is missing"},
		{Name: "bridge_network_subnet", Type: schema.String, Default: "172.26.64.0/20", Description: "IPv4 subnet of the addresses of allocs"},
		{Name: "bridge_network_subnet_ipv6", Type: schema.String, Description: "IPv6 subnet of a second address of each alloc; unset means none"},
		{Name: "bridge_network_hairpin_mode", Type: schema.Bool, Default: false, Description: "lets allocs reach themselves through their own port maps"},
	}}}
}

// SetConfig implements network.Network.
func (n *Network) SetConfig(_ context.Context, body []byte) error {
	var c config
	if err := json.Unmarshal(body, &c); err != nil {
		return errdefs.InvalidArgumentf("decode the config of network-bridge: %w", err)
	}
	s, err := c.check()
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.fixed = n.set.fixed
	n.set = s
	return nil
}

func (n *Network) settings() settings {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set
}

// maxLinkName is the most bytes of the name of an interface in Linux.
const maxLinkName = 15

func (c config) check() (settings, error) {
	s := settings{name: c.Name, hairpin: c.Hairpin}
	if c.Name == "" || len(c.Name) > maxLinkName || c.Name == "." || c.Name == ".." {
		return s, errdefs.InvalidArgumentf("bridge_network_name %q is not the name of an interface, which has 1 to %d bytes", c.Name, maxLinkName)
	}
	for _, b := range c.Name {
		if b <= ' ' || b == '/' || b == ':' || b > '~' {
			return s, errdefs.InvalidArgumentf("bridge_network_name %q is not the name of an interface: it has the character %q", c.Name, b)
		}
	}
	for _, one := range []struct {
		key, text string
		six       bool
	}{{"bridge_network_subnet", c.Subnet, false}, {"bridge_network_subnet_ipv6", c.SubnetIPv6, true}} {
		if one.text == "" && one.six {
			continue
		}
		p, err := netip.ParsePrefix(one.text)
		if err != nil || p.Addr().Is4() == one.six {
			return s, errdefs.InvalidArgumentf("%s %q is not a subnet of that family, such as 172.26.64.0/20 or fd00:a110:c8::/64", one.key, one.text)
		}
		if a := p.Addr(); a.IsLoopback() || a.IsMulticast() || a.IsUnspecified() {
			return s, errdefs.InvalidArgumentf("%s %q is of addresses that no interface can have: those of the loopback, of multicast, and 0.0.0.0; use one of a private network, such as 172.26.64.0/20 or fd00:a110:c8::/64", one.key, one.text)
		}
		if p.Addr().BitLen()-p.Bits() < 2 {
			return s, errdefs.InvalidArgumentf("%s %q has no room for the bridge and an alloc; use a shorter prefix", one.key, one.text)
		}
		s.subnets = append(s.subnets, p.Masked())
	}
	return s, nil
}

// lookEvery is how often the plugin looks whether the machine has got a network that overlaps
// with the bridge's, and whether the rules of the allocs are still there.
const lookEvery = time.Minute

// Fingerprint implements network.Network.
func (n *Network) Fingerprint(ctx context.Context) (<-chan network.Fingerprint, error) {
	return fingerprint.Stream(ctx, func(ctx context.Context) (network.Fingerprint, fingerprint.Again) {
		return n.look(ctx), fingerprint.Again{After: lookEvery}
	}), nil
}

// look reports what the machine offers now.
func (n *Network) look(ctx context.Context) network.Fingerprint {
	if err := probe(); err != nil {
		return network.Fingerprint{Problem: err.Error()}
	}
	set := n.settings()
	f := network.Fingerprint{Networks: []string{isolated}, Attributes: map[string]string{
		"nomad.bridge.hairpin_mode": fmt.Sprint(set.hairpin), "plugins.cni.version.bridge": cniVersion,
	}}
	var offered bool
	if f.Problem, offered = n.overlap(ctx, set); offered {
		f.Networks = []string{bridged, isolated}
	}
	if err := n.restore(ctx, set); err != nil && f.Problem == "" {
		f.Problem = fmt.Sprintf("what was removed of the rules of allocs that run is not written again: %v", err)
	}
	return f
}

// restore writes what is missing of the rules of all allocs.
func (n *Network) restore(ctx context.Context, set settings) error {
	return n.store.shared(ctx, func(all map[string]*record) error {
		restored, err := set.restoreRules(all)
		for _, r := range all {
			if restored && r.reachable() {
				n.flows.add(opens(r))
			}
		}
		return err
	})
}

// Create implements network.Network.
func (n *Network) Create(ctx context.Context, r network.Request) (*network.Attachment, error) {
	if r.Network != bridged && r.Network != isolated {
		return nil, errdefs.NotFoundf("there is no network %q; this plugin has %q and %q", r.Network, bridged, isolated)
	}
	if err := checkRequest(r); err != nil {
		return nil, err
	}
	var rec *record
	err := n.store.turn(ctx, r.AllocID, func() (err error) {
		set := n.settings()
		if r.Network == bridged {
			if err := n.fits(set, r.AllocID, r.Ports); err != nil {
				return err
			}
		}
		if rec, err = n.plan(ctx, set, r); err != nil {
			return err
		}
		return n.make(ctx, set, rec)
	})
	if err != nil {
		return nil, err
	}
	return rec.attachment(), nil
}

// plan returns the record of an alloc, which is durable: the one that it has, changed to
// what is requested, or a new one with free addresses.
func (n *Network) plan(ctx context.Context, set settings, r network.Request) (*record, error) {
	rec, same, err := n.announce(ctx, set, r)
	if errdefs.IsResourceExhausted(err) && n.flows.wait(ctx) { // some addresses are free only now
		rec, same, err = n.announce(ctx, set, r)
	}
	if err != nil || same {
		return rec, err
	}
	return rec, n.store.Sync(r.AllocID)
}

// announce stores the record of an alloc, and reports whether it has it already.
func (n *Network) announce(ctx context.Context, set settings, r network.Request) (rec *record, same bool, err error) {
	rec = &record{AllocID: r.AllocID, Network: r.Network, Path: r.Path, Hostname: r.Hostname, Ports: r.Ports, DNS: r.DNS, namespace: n.store.Namespace(r.AllocID)}
	err = n.store.shared(ctx, func(all map[string]*record) (err error) {
		if r.Network == bridged {
			if rec.Addresses, err = set.addresses(r.AllocID, all, n.flows.addresses(set, all)); err != nil {
				return err
			}
		}
		old := all[r.AllocID]
		if old != nil {
			rec.Since, rec.Changed = old.Since, old.Changed
		}
		if same = reflect.DeepEqual(old, rec); same {
			return nil
		}
		rec.Changed = old != nil
		for _, other := range all {
			rec.Since = max(rec.Since, other.Since+1)
		}
		return n.store.Announce(rec)
	})
	return rec, same, err
}

// make makes of a record what is missing on the machine.
func (n *Network) make(ctx context.Context, set settings, rec *record) error {
	if rec.Path == "" {
		if err := netspace.Make(rec.namespace); err != nil {
			return err
		}
	}
	if err := netspace.LoopbackUp(rec.path()); err != nil || rec.Network == isolated {
		return err
	}
	if err := set.attach(rec); err != nil {
		return err
	}
	if err := n.store.shared(ctx, func(all map[string]*record) error { return set.openPorts(rec, all) }); err != nil {
		return err
	}
	n.flows.add(opens(rec))
	return nil
}

// Inspect implements network.Network.
func (n *Network) Inspect(ctx context.Context, allocID string) (*network.Attachment, error) {
	var rec *record
	err := n.store.turn(ctx, allocID, func() (err error) {
		if rec, err = n.record(ctx, allocID); err != nil {
			return err
		}
		switch {
		case rec == nil:
			return errdefs.NotFoundf("alloc %s has no network", allocID)
		case rec.Ending:
			return errdefs.FailedPreconditionf("the network of alloc %s is being destroyed", allocID)
		case !netspace.Is(rec.path()):
			return errdefs.FailedPreconditionf("the namespace %s of alloc %s is gone", rec.path(), allocID)
		case rec.Network == bridged:
			return n.settings().inspect(rec)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rec.attachment(), nil
}

// record returns the record of an alloc; nil if it has none.
func (n *Network) record(ctx context.Context, allocID string) (rec *record, err error) {
	err = n.store.shared(ctx, func(all map[string]*record) error {
		rec = all[allocID]
		return nil
	})
	return rec, err
}

// Destroy implements network.Network. The record goes last, so that what a killed process
// has left is found.
func (n *Network) Destroy(ctx context.Context, allocID string) error {
	return n.store.turn(ctx, allocID, func() error {
		set := n.settings()
		rec, err := n.unreachable(ctx, set, allocID)
		if err != nil || rec == nil {
			return err
		}
		if len(rec.Ports) > 0 {
			n.flows.add(ends(rec))
		}
		if err := remove(rec); err != nil {
			return err
		}
		return n.store.Remove(allocID)
	})
}

// unreachable makes the ports of an alloc lead nowhere and returns its record; nil if it has
// none.
func (n *Network) unreachable(ctx context.Context, set settings, allocID string) (rec *record, err error) {
	err = n.store.shared(ctx, func(all map[string]*record) error {
		if rec = all[allocID]; rec == nil || rec.Network != bridged {
			return nil
		}
		if !rec.Ending {
			ending := *rec
			ending.Ending = true
			if err := n.store.Announce(&ending); err != nil {
				return err
			}
			all[allocID] = &ending
		}
		return set.closePorts(rec, all)
	})
	return rec, err
}

// List implements network.Network.
func (n *Network) List(context.Context) ([]string, error) { return n.store.IDs() }
