// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"

	"github.com/drover-project/drover/plugins/internal/netrecords"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// record says what an alloc has, or is about to have. It is not changed once it is stored.
type record struct {
	AllocID   string
	Network   string
	Path      string         `json:",omitempty"` // of a namespace that a driver made
	Hostname  string         `json:",omitempty"`
	Addresses []netip.Prefix `json:",omitempty"` // IPv4 first
	Ports     []network.Port `json:",omitempty"`
	DNS       *network.DNS   `json:",omitempty"`
	// Since orders records: of two that have the same port of the machine, the newer has
	// it, since servers gave it away again.
	Since uint64 `json:",omitempty"`
	// Changed means that the record was another before. Rules of that may be left, so they are
	// written anew as a whole.
	Changed bool `json:",omitempty"`
	// Ending means that Destroy has begun: nothing leads to the alloc any more.
	Ending bool `json:",omitempty"`

	namespace string // the path of the plugin's namespace of the alloc
}

// path is the path of the namespace.
func (r *record) path() string { return cmp.Or(r.Path, r.namespace) }

// reachable reports whether the rules of the bridge are about the alloc.
func (r *record) reachable() bool { return r.Network == bridged && !r.Ending }

// attachment is the record as the host sees it.
func (r *record) attachment() *network.Attachment {
	a := &network.Attachment{Path: r.path(), Interface: "lo", DNS: r.DNS, Ports: r.Ports}
	for _, p := range r.Addresses {
		a.Interface = insideName
		a.Addresses = append(a.Addresses, network.Address{Prefix: p.String(), Gateway: p.Masked().Addr().Next().String()})
	}
	return a
}

// insideName is the name of the interface in the namespace.
const insideName = "eth0"

// addresses returns those that the alloc has, where they are still in the subnets, and
// free ones else. The first of each subnet is the bridge's. used are addresses that are not free
// though no record has them.
func (s settings) addresses(allocID string, all map[string]*record, used map[netip.Addr]bool) (out []netip.Prefix, err error) {
	var own []netip.Prefix
	for id, r := range all {
		if id == allocID {
			own = r.Addresses
			continue
		}
		for _, p := range r.Addresses {
			used[p.Addr()] = true
		}
	}
	for _, subnet := range s.subnets {
		keeps := slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Masked() == subnet && !used[p.Addr()] })
		if keeps >= 0 {
			out = append(out, own[keeps])
			continue
		}
		addr := subnet.Addr().Next().Next()
		for used[addr] {
			addr = addr.Next()
		}
		// The last address of an IPv4 subnet is its broadcast address.
		if !subnet.Contains(addr) || addr.Is4() && !subnet.Contains(addr.Next()) {
			return nil, errdefs.ResourceExhaustedf("every address of the subnet %s is used by an alloc of this node; use a larger %s, or place fewer groups with such a network on the node", subnet, keyOf(subnet))
		}
		out = append(out, netip.PrefixFrom(addr, subnet.Bits()))
	}
	return out, nil
}

func checkRequest(r network.Request) error {
	if err := netrecords.CheckID(r.AllocID); err != nil {
		return err
	}
	if len(r.Args) > 0 {
		return errdefs.InvalidArgumentf("network %q takes no arguments; remove cni { args } from the group's network, or use mode \"cni/NAME\"", r.Network)
	}
	if r.Network == isolated && len(r.Ports) > 0 {
		return errdefs.InvalidArgumentf("network %q has no ports; remove port %q", r.Network, r.Ports[0].Label)
	}
	return netrecords.CheckPorts(r.Ports)
}

// store keeps the records.
type store struct {
	netrecords.Store[record]

	mu     sync.Mutex // held with the lock "lock", for which goroutines would poll otherwise
	reader netrecords.Reader[record]
}

func newStore(dir string) *store {
	s := &store{Store: netrecords.Store[record]{
		Dir: dir, Owner: func(r *record) string { return r.AllocID },
		// Its addresses are unknown, and its links are found by the alloc's id.
		Damaged: func(id string) *record { return &record{AllocID: id, Network: bridged} },
	}}
	s.reader.Store = &s.Store
	return s
}

// turn calls f while there is no other call about the alloc. Some allocs share a lock, so
// that the number of files is bounded.
func (s *store) turn(ctx context.Context, allocID string, f func() error) error {
	h := fnv.New32a()
	h.Write([]byte(allocID))
	return s.Locked(ctx, fmt.Sprintf("lock-%03x", h.Sum32()%4096), f)
}

// shared calls f with all records while nobody else gives addresses or changes rules. It is
// short: nothing in it waits for the disk or for the removal of a link.
func (s *store) shared(ctx context.Context, f func(all map[string]*record) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Locked(ctx, "lock", func() error {
		all, err := s.reader.All()
		if err != nil {
			return err
		}
		for id, r := range all {
			if r.namespace == "" { // nobody else has seen it yet
				r.namespace = s.Namespace(id)
			}
		}
		return f(all)
	})
}
