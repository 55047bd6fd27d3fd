// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Networks makes networks of allocs; *pluginhost.Host does.
type Networks interface {
	// CreateNetwork makes the network of an alloc, or repairs it.
	CreateNetwork(ctx context.Context, r network.Request) (*network.Attachment, error)
	// DestroyNetwork removes all that is left of the network.
	DestroyNetwork(ctx context.Context, name, allocID string) error
}

// Network is the network that an alloc has.
type Network struct {
	*network.Attachment
	// Made is the namespace as the driver told it that made it; nil if the network plugin
	// did.
	Made     *driver.NetworkIsolation `json:",omitempty"`
	Hostname string                   `json:",omitempty"`
	// NamespaceID tells the namespace from others; "" if that is not known.
	NamespaceID string `json:",omitempty"`
}

// noNetwork is the network mode of a group whose tasks have a loopback only, and
// bridgeNetwork the mode of a group behind the bridge of the machine.
const (
	noNetwork     = "none"
	bridgeNetwork = "bridge"
)

// ownNetwork returns the network block of a group with a network of its own; nil if the
// group uses the node's network.
func ownNetwork(tg *model.TaskGroup) *model.NetworkResource {
	if len(tg.Networks) == 0 {
		return nil
	}
	switch n := tg.Networks[0]; n.Mode {
	case "", "host":
		return nil
	default:
		return n
	}
}

// isolates reports whether a driver keeps its tasks off every network by itself.
func isolates(c driver.Capabilities) bool {
	return slices.Contains(c.NetworkModes, driver.NetworkNone)
}

// needsNetwork reports whether a network must be made for the group: the group does not use
// the node's network, and not all of its drivers make the network themselves.
func (r *Runner) needsNetwork() bool {
	n := ownNetwork(r.group)
	if n == nil || n.Mode != noNetwork {
		return n != nil
	}
	return slices.ContainsFunc(r.group.Tasks, func(t *model.Task) bool {
		d, err := r.cfg.Drivers.Driver(t.Driver)
		return err != nil || !isolates(d.Info().Capabilities)
	})
}

// makeNetwork makes the network of the group, or repairs it. It is called as a step of
// the group, and again before each start of a task, since a reboot or an operator may
// have removed it meanwhile.
func (r *Runner) makeNetwork(ctx context.Context) error {
	r.networking.Lock()
	defer r.networking.Unlock()
	r.mu.Lock()
	a, tg := r.alloc, r.group
	r.mu.Unlock()
	if r.cfg.Networks == nil {
		return errdefs.InvalidArgumentf("this node makes no networks for allocs; use mode \"host\"")
	}
	req := r.networkRequest(a, tg)
	out := &Network{Hostname: req.Hostname}
	maker, err := r.networkMaker(tg)
	if err != nil {
		return err
	}
	if maker != nil {
		if out.Made, err = maker.CreateNetwork(ctx, driver.NetworkRequest{AllocID: a.ID, Hostname: req.Hostname}); err != nil {
			return fmt.Errorf("have the driver make the group's namespace: %w", err)
		}
		req.Path = out.Made.Path
	}
	if out.Attachment, err = r.cfg.Networks.CreateNetwork(ctx, req); err != nil {
		return err
	}
	out.NamespaceID = namespaceID(out.Path)
	r.mu.Lock()
	defer r.mu.Unlock()
	had := r.attached
	r.attached = out
	r.saveAlloc()
	if had != nil && had.NamespaceID != "" && out.NamespaceID != "" && had.NamespaceID != out.NamespaceID {
		r.leaveNamespace()
	}
	return nil
}

// leaveNamespace restarts the tasks that run. They are in a namespace that was replaced: nobody
// reaches them there, not even other tasks of the group. r.mu is held.
func (r *Runner) leaveNamespace() {
	var e effects
	for _, t := range r.group.Tasks {
		if run := r.tasks[t.Name]; run != nil && run.state.Phase == task.Running {
			r.step(t.Name, task.Restart{Reason: "The group's network was lost and made again; the task is still in the former one"}, &e)
		}
	}
	r.settle(&e)
}

// networkMaker returns the driver that must make the namespace of the group, because its
// tasks can join no other; nil if there is none.
func (r *Runner) networkMaker(tg *model.TaskGroup) (driver.Networker, error) {
	var maker driver.Networker
	name := ""
	for _, t := range tg.Tasks {
		d, err := r.cfg.Drivers.Driver(t.Driver)
		if err != nil {
			return nil, errdefs.Unavailablef("%w", err) // a plugin that is away may come back
		}
		n, ok := d.(driver.Networker)
		if !ok || !slices.Contains(d.Info().Features, driver.FeatureNetworks) || t.Driver == name {
			continue
		}
		if maker != nil {
			return nil, errdefs.InvalidArgumentf("the drivers %q and %q of group %q both must make its network, and there can be only one; put their tasks into two groups", name, t.Driver, tg.Name)
		}
		maker, name = n, t.Driver
	}
	return maker, nil
}

func (r *Runner) networkRequest(a *model.Allocation, tg *model.TaskGroup) network.Request {
	n := r.filledNetwork(a, tg, ownNetwork(tg))
	req := network.Request{
		AllocID: a.ID, Network: n.Mode, Namespace: a.Namespace, JobID: a.JobID, TaskGroup: tg.Name, Hostname: n.Hostname,
	}
	if d := n.DNS; d != nil {
		req.DNS = &network.DNS{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
	}
	if n.CNI != nil {
		req.Args = n.CNI.Args
	}
	if a.AllocatedResources == nil || n.Mode == noNetwork {
		return req
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		port := network.Port{Label: p.Label, HostIP: p.HostIP, HostPort: p.Value, Port: p.To}
		if port.Port <= 0 {
			port.Port = p.Value
		}
		req.Ports = append(req.Ports, port)
		if ip, err := netip.ParseAddr(p.HostIP); err == nil && ip.Is4() && !ip.IsLoopback() && !ip.IsUnspecified() && onDefaultNetwork(a, p.Label) {
			port.HostIP = "127.0.0.1" // programs of the machine use it as they use ports of the host
			req.Ports = append(req.Ports, port)
			if n.Mode != bridgeNetwork { // CNI programs refuse addresses of a family that their network does not have
				continue
			}
			for _, six := range r.defaultIPv6() {
				port.HostIP = six
				req.Ports = append(req.Ports, port)
			}
		}
	}
	return req
}

// defaultIPv6 returns the IPv6 addresses of the node's default network, on which no other port
// of that number is either.
func (r *Runner) defaultIPv6() (out []string) {
	node := r.cfg.Node()
	if node == nil || node.NodeResources == nil {
		return nil
	}
	for _, n := range node.NodeResources.NodeNetworks {
		for _, a := range n.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Alias == model.DefaultHostNetwork && ip.Is6() && !ip.IsLoopback() {
				out = append(out, a.Address)
			}
		}
	}
	return out
}

// onDefaultNetwork reports whether a port is on the node's default network, which no
// other port of that number is.
func onDefaultNetwork(a *model.Allocation, label string) bool {
	for _, n := range a.AllocatedResources.Shared.Networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Label == label {
				return p.HostNetwork == "" || p.HostNetwork == model.DefaultHostNetwork
			}
		}
	}
	return false
}

// filledNetwork returns a network block with its ${...} replaced, as for the group's first task.
func (r *Runner) filledNetwork(a *model.Allocation, tg *model.TaskGroup, n *model.NetworkResource) *model.NetworkResource {
	out := *n
	env := func(s string) string { return s }
	if len(tg.Tasks) > 0 {
		env = r.environment(a, tg.Tasks[0], driver.Capabilities{FSIsolation: "image"}, template.Vars{}).Replace
	}
	all := func(list []string) (out []string) {
		for _, s := range list {
			out = append(out, env(s))
		}
		return out
	}
	out.Hostname = env(n.Hostname)
	if d := n.DNS; d != nil {
		out.DNS = &model.DNSConfig{Servers: all(d.Servers), Searches: all(d.Searches), Options: all(d.Options)}
	}
	if n.CNI != nil {
		args := make(map[string]string, len(n.CNI.Args))
		for k, v := range n.CNI.Args {
			args[k] = env(v)
		}
		out.CNI = &model.CNIConfig{Args: args}
	}
	return &out
}

// removeNetwork removes the network of the group, and then the namespace if a driver made
// it.
func (r *Runner) removeNetwork(ctx context.Context) error {
	r.networking.Lock()
	defer r.networking.Unlock()
	r.mu.Lock()
	a, tg, has := r.alloc, r.group, r.attached
	r.mu.Unlock()
	if r.cfg.Networks == nil {
		return nil // so it has made nothing
	}
	if err := r.cfg.Networks.DestroyNetwork(ctx, ownNetwork(tg).Mode, a.ID); err != nil {
		return err
	}
	maker, err := r.networkMaker(tg)
	if err != nil {
		return err
	}
	if maker != nil {
		var made *driver.NetworkIsolation
		if has != nil {
			made = has.Made
		}
		if err := maker.DestroyNetwork(ctx, a.ID, made); err != nil {
			return fmt.Errorf("have the driver remove the group's namespace: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached = nil
	r.saveAlloc()
	return nil
}

// UsesNetwork reports whether the alloc has a network, or may have one.
func (r *Runner) UsesNetwork() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.phase.Steps {
		if s.Name == GroupNetwork {
			return s.Holds()
		}
	}
	return false
}

// addresses returns the first address of each family; "" where there is none.
func (n *Network) addresses() (four, six string) {
	if n == nil || n.Attachment == nil {
		return "", ""
	}
	for _, a := range n.Addresses {
		p, err := netip.ParsePrefix(a.Prefix)
		switch {
		case err != nil:
		case p.Addr().Is4() && four == "":
			four = p.Addr().String()
		case p.Addr().Is6() && six == "":
			six = p.Addr().String()
		}
	}
	return four, six
}

// address is the address at which other groups reach this group.
func (n *Network) address() string {
	four, six := n.addresses()
	if four == "" {
		return six
	}
	return four
}

// isolation returns the group's network in the form that a driver gets.
func (r *Runner) isolation(tg *model.TaskGroup, c driver.Capabilities) *driver.NetworkIsolation {
	n := ownNetwork(tg)
	switch {
	case n == nil:
		return nil
	case n.Mode == noNetwork && isolates(c):
		return &driver.NetworkIsolation{Mode: driver.NetworkNone}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached == nil { // the group is ready only with a network
		return nil
	}
	out := &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: r.attached.Path, Address: r.attached.address(), Hostname: r.attached.Hostname}
	if r.attached.Made != nil {
		out.Labels = r.attached.Made.Labels
	}
	return out
}

// resolver is the DNS configuration of the tasks: the job's, or else the network's.
func (r *Runner) resolver(a *model.Allocation, tg *model.TaskGroup) *driver.DNSConfig {
	if len(tg.Networks) > 0 && tg.Networks[0].DNS != nil {
		d := r.filledNetwork(a, tg, tg.Networks[0]).DNS
		return &driver.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
	}
	r.mu.Lock()
	has := r.attached
	r.mu.Unlock()
	if has == nil {
		return nil
	}
	if d := has.DNS; d != nil {
		return &driver.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
	}
	if r.cfg.Resolver == nil {
		return nil
	}
	out := &driver.DNSConfig{}
	for _, g := range r.Gateways() {
		if r.cfg.Resolver.Answers(g) {
			out.Servers = append(out.Servers, g.String())
		}
	}
	if len(out.Servers) == 0 {
		return nil
	}
	out.Searches, out.Options = r.cfg.Resolver.Search()
	return out
}

// Resolver is the node's DNS server.
type Resolver interface {
	// Answers reports whether the server answers on an address of the machine by which allocs
	// reach it. It does from now on, if it can.
	Answers(gateway netip.Addr) bool
	// Search returns the domains that are appended to short names, and other options, as for
	// who asks the resolvers behind the server.
	Search() (domains, options []string)
}

// Gateways are the addresses by which a group with a network of mode "bridge" reaches the
// machine.
func (r *Runner) Gateways() (out []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := ownNetwork(r.group); r.attached == nil || r.attached.Attachment == nil || n == nil || n.Mode != bridgeNetwork {
		return nil
	}
	for _, a := range r.attached.Addresses {
		if g, err := netip.ParseAddr(a.Gateway); err == nil {
			out = append(out, g)
		}
	}
	return out
}

// HasAddress reports whether the group has an address in its own network.
func (r *Runner) HasAddress(a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached == nil || r.attached.Attachment == nil {
		return false
	}
	return slices.ContainsFunc(r.attached.Addresses, func(one network.Address) bool {
		p, err := netip.ParsePrefix(one.Prefix)
		return err == nil && p.Addr() == a
	})
}

// groupAddress is the address of the group in its own network; "" if it has none.
func (r *Runner) groupAddress() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attached.address()
}
