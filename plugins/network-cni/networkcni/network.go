// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package networkcni is the network plugin cni: it offers each network that a CNI
// configuration of the machine describes as "cni/NAME", and makes it with the CNI programs
// of the machine, by the CNI specification (https://www.cni.dev/docs/spec). It owns its
// records, one for each alloc, which are written before a program is called, and the
// namespaces. It does not own what the programs make: only they remove it.
package networkcni

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/containernetworking/cni/libcni"

	"github.com/drover-project/drover/plugins/internal/netrecords"
	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// Main runs the plugin.
func Main() error {
	dir, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	return plugin.Serve(plugin.Info{Name: "network-cni", Version: Version}, network.Service(New(dir)))
}

// settings is the plugin's block in the agent's configuration.
type settings struct {
	Path      string `json:"cni_path"`
	ConfigDir string `json:"cni_config_dir"`
	GC        bool   `json:"cni_gc"`
}

// Network is the network plugin.
type Network struct {
	store netrecords.Store[record]

	// changing is held for reading while a network is made or removed. The specification
	// forbids GC meanwhile: it would remove what a program is just making.
	changing sync.RWMutex

	mu       sync.Mutex
	set      settings
	changed  chan struct{} // closed when set changes
	versions map[string]programVersion
}

var _ network.Network = (*Network)(nil)

// New returns a plugin that keeps its records and namespaces in dir, an absolute path.
func New(dir string) *Network {
	return &Network{
		store: netrecords.Store[record]{
			Dir: dir, Owner: func(r *record) string { return r.AllocID },
			Damaged: func(id string) *record { return &record{AllocID: id} },
		},
		changed: make(chan struct{}), versions: map[string]programVersion{},
	}
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	return network.Info{Name: "network-cni", ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "cni_path", Type: schema.String, Default: "/opt/cni/bin", Description: "directories with the CNI programs, separated by colons"},
		{Name: "cni_config_dir", Type: schema.String, Default: "/opt/cni/config", Description: "directory with the CNI configurations: *.conflist, *.conf and *.json"},
		{Name: "cni_gc", Type: schema.Bool, Default: false, Description: "has CNI programs of version 1.1 remove what belongs to no alloc; only where nothing else on the machine uses these networks"},
	}}}
}

// SetConfig implements network.Network.
func (n *Network) SetConfig(_ context.Context, body []byte) error {
	var s settings
	if err := json.Unmarshal(body, &s); err != nil {
		return errdefs.InvalidArgumentf("decode the config of network-cni: %w", err)
	}
	for _, dir := range append(filepath.SplitList(s.Path), s.ConfigDir) {
		if !filepath.IsAbs(dir) {
			return errdefs.InvalidArgumentf("cni_path %q and cni_config_dir %q must be absolute paths: %q is none", s.Path, s.ConfigDir, dir)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set = s
	close(n.changed)
	n.changed = make(chan struct{})
	return nil
}

// current returns the settings, and a channel that is closed when they change.
func (n *Network) current() (settings, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set, n.changed
}

// lockName is the name of the lock of an alloc. Calls about different allocs do not wait for
// each other, as the CNI specification wants it; some of them share a lock, so that the
// number of files is bounded.
func lockName(allocID string) string {
	sum := byte(0)
	for i := range len(allocID) {
		sum = sum*31 + allocID[i]
	}
	return fmt.Sprintf("lock-%02x", sum)
}

// Create implements network.Network.
func (n *Network) Create(ctx context.Context, r network.Request) (*network.Attachment, error) {
	if err := checkRequest(r); err != nil {
		return nil, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	var rec *record
	err := n.store.Locked(ctx, lockName(r.AllocID), func() (err error) {
		n.changing.RLock()
		defer n.changing.RUnlock()
		rec, err = n.create(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rec.attachment(n.store.Namespace(r.AllocID))
}

func (n *Network) create(ctx context.Context, r network.Request) (*record, error) {
	old, err := n.store.Get(r.AllocID)
	if err != nil {
		return nil, err
	}
	rec := &record{AllocID: r.AllocID, Network: r.Network, Path: r.Path, Hostname: r.Hostname, Namespace: r.Namespace, JobID: r.JobID, TaskGroup: r.TaskGroup, Ports: r.Ports, DNS: r.DNS, Args: r.Args}
	var broken error
	if old != nil && old.Result != nil && reflect.DeepEqual(old.asked(), rec.asked()) {
		if broken = n.works(ctx, old); broken == nil {
			return old, nil
		}
	}
	list, err := n.list(r.Network)
	if err != nil {
		return nil, errors.Join(err, broken)
	}
	if old != nil {
		rec.Wanted = old.addresses()
		if err := n.clear(ctx, old); err != nil {
			return nil, fmt.Errorf("remove the network that does not work, to make it again: %w", err)
		}
	}
	rec.Conf = list.Bytes
	if err := n.store.Put(rec); err != nil {
		return nil, err
	}
	return rec, n.attach(ctx, list, rec)
}

// attach makes what a record describes, and completes the record.
func (n *Network) attach(ctx context.Context, list *libcni.NetworkConfigList, rec *record) error {
	path := n.path(rec)
	if rec.Path == "" {
		if err := netspace.Make(path); err != nil {
			return err
		}
	}
	if err := netspace.LoopbackUp(path); err != nil {
		return err
	}
	result, err := n.cni().AddNetworkList(ctx, list, rec.runtime(path))
	if err != nil {
		return classified(ctx, "make", rec, err)
	}
	if rec.Result, err = current(result); err != nil {
		return fmt.Errorf("the answer of network %s: %w", rec.Network, err)
	}
	rec.MapsPorts = mapsPorts(list)
	// Some programs say of a network that they have just made that it does not work, such as
	// portmap 1.1 of one without IPv6. Their later word is worth nothing either.
	rec.Unchecked = n.cni().CheckNetworkList(ctx, list, rec.runtime(path)) != nil
	a, err := rec.attachment(path)
	if err != nil {
		return err
	}
	if rec.claims() {
		if err := hasInterface(path, a); err != nil {
			return errdefs.FailedPreconditionf("the programs of network %s report success, but %w", rec.Network, err)
		}
	}
	return n.store.Put(rec)
}

// detach removes what a record describes, except for the record and the namespace.
func (n *Network) detach(ctx context.Context, rec *record) error {
	if len(rec.Conf) == 0 {
		return nil // no program has been called
	}
	list, err := libcni.NetworkConfFromBytes(rec.Conf)
	if err != nil {
		return errdefs.Internalf("read the configuration of network %s of alloc %s: %w", rec.Network, rec.AllocID, err)
	}
	path := n.path(rec)
	if !netspace.Is(path) {
		path = "" // by the specification: the namespace is gone, free the rest
	}
	if err := n.cni().DelNetworkList(ctx, list, rec.runtime(path)); err != nil {
		return classified(ctx, "remove", rec, err)
	}
	return nil
}

// clear removes a network whatever is left of it. Some programs cannot remove what they have
// half made, such as bridge 1.1, whose DEL fails on a chain of iptables that ADD has not made
// yet. So what was begun and cannot be removed is completed first, in a namespace without
// any of it.
func (n *Network) clear(ctx context.Context, rec *record) error {
	err := n.detach(ctx, rec)
	if err == nil || rec.Result != nil || rec.Path != "" || ctx.Err() != nil {
		return err
	}
	path := n.path(rec)
	list, lerr := libcni.NetworkConfFromBytes(rec.Conf)
	if lerr == nil {
		lerr = netspace.Remove(path)
	}
	if lerr == nil {
		lerr = netspace.Make(path)
	}
	if lerr == nil {
		_, lerr = n.cni().AddNetworkList(ctx, list, rec.runtime(path))
	}
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	return n.detach(ctx, rec)
}

// works says why the network of an alloc does not work; nil if it does.
func (n *Network) works(ctx context.Context, rec *record) error {
	path := n.path(rec)
	if !netspace.Is(path) {
		return errdefs.FailedPreconditionf("the namespace %s of alloc %s is gone", path, rec.AllocID)
	}
	a, err := rec.attachment(path)
	if err != nil {
		return err
	}
	if rec.claims() {
		if err := hasInterface(path, a); err != nil {
			return err
		}
	}
	if rec.Unchecked {
		return nil
	}
	list, err := libcni.NetworkConfFromBytes(rec.Conf)
	if err != nil {
		return errdefs.FailedPreconditionf("read the configuration of network %s of alloc %s: %w", rec.Network, rec.AllocID, err)
	}
	if err := n.cni().CheckNetworkList(ctx, list, rec.runtime(path)); err != nil {
		return classified(ctx, "check", rec, err)
	}
	return nil
}

// path is the path of the namespace of a record.
func (n *Network) path(rec *record) string {
	return cmp.Or(rec.Path, n.store.Namespace(rec.AllocID))
}

// Inspect implements network.Network.
func (n *Network) Inspect(ctx context.Context, allocID string) (*network.Attachment, error) {
	if err := netrecords.CheckID(allocID); err != nil {
		return nil, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	var rec *record
	err := n.store.Locked(ctx, lockName(allocID), func() (err error) {
		if rec, err = n.store.Get(allocID); err != nil {
			return err
		}
		switch {
		case rec == nil:
			return errdefs.NotFoundf("alloc %s has no network", allocID)
		case rec.Result == nil:
			return errdefs.FailedPreconditionf("the network of alloc %s was begun and not completed", allocID)
		}
		return n.works(ctx, rec)
	})
	if err != nil {
		return nil, err
	}
	return rec.attachment(n.store.Namespace(allocID))
}

// Destroy implements network.Network. The record goes last, so that what a killed process
// has left is found.
func (n *Network) Destroy(ctx context.Context, allocID string) error {
	if err := netrecords.CheckID(allocID); err != nil {
		return err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	return n.store.Locked(ctx, lockName(allocID), func() error {
		n.changing.RLock()
		defer n.changing.RUnlock()
		rec, err := n.store.Get(allocID)
		if err != nil || rec == nil {
			return err
		}
		if err := n.clear(ctx, rec); err != nil {
			return err
		}
		if err := netspace.Remove(n.store.Namespace(allocID)); err != nil {
			return err
		}
		return n.store.Remove(allocID)
	})
}

// List implements network.Network.
func (n *Network) List(context.Context) ([]string, error) { return n.store.IDs() }

// addresses returns the addresses that a record has, for a network that is made again.
func (r *record) addresses() []string {
	a, err := r.attachment("")
	if r.Result == nil || err != nil {
		return r.Wanted
	}
	var out []string
	for _, one := range a.Addresses {
		if p, err := netip.ParsePrefix(one.Prefix); err == nil {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return out
}
