// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// record says what an alloc has, or is about to have.
type record struct {
	AllocID   string
	Network   string
	Path      string         `json:",omitempty"` // of a namespace that a driver made
	Hostname  string         `json:",omitempty"`
	Addresses []netip.Prefix `json:",omitempty"` // IPv4 first
	Ports     []network.Port `json:",omitempty"`
	DNS       *network.DNS   `json:",omitempty"`

	namespace string // the path of the plugin's namespace of the alloc
}

// path is the path of the namespace.
func (r *record) path() string { return cmp.Or(r.Path, r.namespace) }

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
// free ones else. The first of each subnet is the bridge's.
func (s settings) addresses(allocID string, all map[string]*record) (out []netip.Prefix, err error) {
	used := map[netip.Addr]bool{}
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
			return nil, errdefs.ResourceExhaustedf("every address of the subnet %s is used by an alloc of this node; use a larger bridge_network_subnet", subnet)
		}
		out = append(out, netip.PrefixFrom(addr, subnet.Bits()))
	}
	return out, nil
}

// allocIDs are names of files without any meaning for a path.
var allocIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkRequest(r network.Request) error {
	if !allocIDs.MatchString(r.AllocID) {
		return errdefs.InvalidArgumentf("%q is not the id of an alloc", r.AllocID)
	}
	if len(r.Args) > 0 {
		return errdefs.InvalidArgumentf("network %q takes no arguments; remove cni { args } from the group's network, or use mode \"cni/NAME\"", r.Network)
	}
	if r.Network == isolated && len(r.Ports) > 0 {
		return errdefs.InvalidArgumentf("network %q has no ports; remove port %q", r.Network, r.Ports[0].Label)
	}
	for _, p := range r.Ports {
		if p.HostPort < 1 || p.HostPort > 65535 || p.Port < 1 || p.Port > 65535 {
			return errdefs.InvalidArgumentf("port %q leads from %d to %d, which are not both ports", p.Label, p.HostPort, p.Port)
		}
		if _, err := netip.ParseAddr(p.HostIP); p.HostIP != "" && err != nil {
			return errdefs.InvalidArgumentf("port %q: the address %q of the machine is not an IP address", p.Label, p.HostIP)
		}
	}
	return nil
}

// store keeps the records in a directory, which processes of several versions share.
type store struct{ dir string }

func (s *store) records() string            { return filepath.Join(s.dir, "networks") }
func (s *store) file(id string) string      { return filepath.Join(s.records(), id+".json") }
func (s *store) namespace(id string) string { return filepath.Join(s.dir, "netns", id) }

// locked calls f while no other process uses the records.
func (s *store) locked(f func() error) error {
	for _, dir := range []string{s.records(), filepath.Join(s.dir, "netns")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("keep the networks of allocs: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("keep the networks of allocs: %w", err)
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return fmt.Errorf("lock the networks of allocs: %w", err)
	}
	return f()
}

// ids returns the ids of all records, in order.
func (s *store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.records())
	if err != nil {
		return nil, fmt.Errorf("list the networks of allocs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// all returns all records by alloc. A file that is damaged counts as a network without
// addresses, so that it can be destroyed.
func (s *store) all() (map[string]*record, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	out := make(map[string]*record, len(ids))
	for _, id := range ids {
		body, err := os.ReadFile(s.file(id))
		if err != nil {
			return nil, fmt.Errorf("read the network of alloc %s: %w", id, err)
		}
		r := &record{}
		if err := json.Unmarshal(body, r); err != nil || r.AllocID != id {
			r = &record{AllocID: id, Network: bridged}
		}
		r.namespace = s.namespace(id)
		out[id] = r
	}
	return out, nil
}

// put stores a record durably.
func (s *store) put(r *record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return errdefs.Internalf("encode the network of alloc %s: %w", r.AllocID, err)
	}
	tmp := s.file(r.AllocID) + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the network of alloc %s: %w", r.AllocID, err)
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, s.file(r.AllocID))
	}
	if err != nil {
		return fmt.Errorf("keep the network of alloc %s: %w", r.AllocID, err)
	}
	return nil
}

func (s *store) remove(id string) error {
	if err := os.Remove(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the network of alloc %s: %w", id, err)
	}
	return nil
}
