// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// NodeBounds limits the size of a registration. It is many times what a machine with
// thousands of cores and devices sends.
var NodeBounds = Bounds{Text: 64 << 10, Entries: 8192, Total: 4 << 20}

// MaxNodeKey is the maximum length of a name or key in a registration, in bytes.
const MaxNodeKey = 512

// MaxNodeToken is the maximum length of the token in a registration, in bytes.
const MaxNodeToken = 4096

// MaxNUMANode is the highest number of a NUMA node of a device.
const MaxNUMANode = 1023

// Limits of texts and numbers in a registration.
const (
	maxNodeAmount   = 1 << 50   // MHz, MiB and other amounts
	maxNodeAddrs    = 1024      // addresses in all networks
	maxReserveText  = 4096      // bytes of "22,80,8500-8600"
	maxSecretLength = 128       // bytes
	maxPort         = 1<<16 - 1 // highest port number
)

var nodePoolRule = regexp.MustCompile(`^[a-zA-Z0-9-_]{1,128}$`)

// isUUID reports whether id has the form of a UUID, in either case. Servers ask with each
// heartbeat of each node.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		switch b := id[i]; {
		case dash != (b == '-'):
			return false
		case !dash && (b < '0' || b > '9') && (b < 'a' || b > 'f') && (b < 'A' || b > 'F'):
			return false
		}
	}
	return true
}

// ValidateNodeID returns an error of class InvalidArgument if id cannot be a node's
// id.
func ValidateNodeID(id string) error {
	if !isUUID(id) {
		return errdefs.InvalidArgumentf("%.80q is not an id of a node: it must be a UUID", id)
	}
	return nil
}

// ValidateRegistration returns an error of class InvalidArgument that names the field
// if a registration is invalid: null entries in lists and maps, malformed ids,
// impossible amounts, or more data than NodeBounds.
func (n *Node) ValidateRegistration() error {
	if n == nil {
		return errdefs.InvalidArgumentf("the registration is empty; send the node")
	}
	if err := ValidateNodeID(n.ID); err != nil {
		return err
	}
	if n.SecretID == "" || len(n.SecretID) > maxSecretLength {
		return errdefs.InvalidArgumentf("node %s: a node registers with an id and a secret of at most %d bytes; this secret has %d", n.ID, maxSecretLength, len(n.SecretID))
	}
	if err := NodeBounds.Check("node "+n.ID+": Node", n); err != nil {
		return err
	}
	if n.NodePool != "" && !IsPoolOfNode(n.NodePool) {
		return errdefs.InvalidArgumentf("node %s: %.80q is not a node pool of a node; use at most 128 letters, digits, dashes and underscores", n.ID, n.NodePool)
	}
	var p ValidationError
	n.validateNames(&p)
	n.NodeResources.validate(&p)
	n.ReservedResources.validate(&p)
	if err := p.err(); err != nil {
		return errdefs.InvalidArgumentf("node %s: %w", n.ID, err)
	}
	return nil
}

// IsPoolOfNode reports whether a node can be in a pool of this name.
func IsPoolOfNode(name string) bool { return name != NodePoolAll && nodePoolRule.MatchString(name) }

func (n *Node) validateNames(p *ValidationError) {
	for field, value := range map[string]string{
		"Name": n.Name, "Datacenter": n.Datacenter, "NodeClass": n.NodeClass, "HTTPAddr": n.HTTPAddr,
		"CgroupParent": n.CgroupParent, "Region": n.Region, "Instance": n.Instance, "IdentitySigningKeyID": n.IdentitySigningKeyID,
	} {
		if len(value) > MaxNodeKey {
			p.addf("%s has %d bytes; at most %d are taken", field, len(value), MaxNodeKey)
		}
	}
	for field, names := range map[string][]string{
		"Attributes": keys(n.Attributes), "Meta": keys(n.Meta), "Links": keys(n.Links), "Drivers": keys(n.Drivers),
		"HostVolumes": keys(n.HostVolumes), "HostNetworks": keys(n.HostNetworks), "Plugins": keys(n.Plugins),
		"CSIControllerPlugins": keys(n.CSIControllerPlugins), "CSINodePlugins": keys(n.CSINodePlugins), "PluginReleases": keys(n.PluginReleases),
	} {
		for _, name := range names {
			if len(name) > MaxNodeKey || strings.ContainsRune(name, 0) {
				p.addf("%s has a key %.80q of %d bytes; at most %d are taken, and no null character", field, name, len(name), MaxNodeKey)
			}
		}
	}
	if len(n.Token) > MaxNodeToken {
		p.addf("Token has %d bytes; at most %d are taken", len(n.Token), MaxNodeToken)
	}
	if n.NodeMaxAllocs < 0 {
		p.addf("NodeMaxAllocs is %d", n.NodeMaxAllocs)
	}
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

// CheckReservedPorts returns an error of class InvalidArgument if text is not a list
// of ports such as "22,80,8500-8600".
func CheckReservedPorts(name, text string) error {
	var p ValidationError
	validateReserved(&p, name, text)
	return p.err()
}

func (r *NodeResources) validate(p *ValidationError) {
	if r == nil {
		return
	}
	amount(p, "NodeResources.Cpu.CpuShares", r.Cpu.CpuShares)
	amount(p, "NodeResources.Memory.MemoryMB", r.Memory.MemoryMB)
	amount(p, "NodeResources.Disk.DiskMB", r.Disk.DiskMB)
	if r.MinDynamicPort < 0 || r.MaxDynamicPort < 0 || r.MinDynamicPort > maxPort || r.MaxDynamicPort > maxPort {
		p.addf("NodeResources has the dynamic ports %d to %d; they are 0 to %d", r.MinDynamicPort, r.MaxDynamicPort, maxPort)
	}
	for _, g := range r.Devices {
		for _, i := range g.Instances {
			if at, ok := i.NUMANode(); ok && (at < 0 || at > MaxNUMANode) {
				p.addf("NodeResources.Devices: device %.80q is of NUMA node %d; there are 0 to %d", i.ID, at, MaxNUMANode)
			}
		}
	}
	addresses := len(r.Networks)
	for _, nw := range r.NodeNetworks {
		addresses += len(nw.Addresses)
		for _, a := range nw.Addresses {
			validateReserved(p, "NodeResources.NodeNetworks.Addresses.ReservedPorts", a.ReservedPorts)
		}
	}
	if addresses > maxNodeAddrs {
		p.addf("NodeResources has %d networks and addresses; at most %d are taken", addresses, maxNodeAddrs)
	}
}

func (r *NodeReservedResources) validate(p *ValidationError) {
	if r == nil {
		return
	}
	amount(p, "ReservedResources.Cpu.CpuShares", r.Cpu.CpuShares)
	amount(p, "ReservedResources.Memory.MemoryMB", r.Memory.MemoryMB)
	amount(p, "ReservedResources.Disk.DiskMB", r.Disk.DiskMB)
	validateReserved(p, "ReservedResources.Networks.ReservedHostPorts", r.Networks.ReservedHostPorts)
}

// amount rejects a value that is negative or more than any machine has.
func amount[N int64 | uint64](p *ValidationError, field string, n N) {
	if n < 0 || n > maxNodeAmount {
		p.addf("%s is %d; it must be 0 to %d", field, n, int64(maxNodeAmount))
	}
}

// validateReserved rejects a text that is not a list of ports, or has invalid port
// numbers.
func validateReserved(p *ValidationError, field, text string) {
	if text == "" {
		return
	}
	if len(text) > maxReserveText {
		p.addf("%s has %d bytes; at most %d are taken", field, len(text), maxReserveText)
		return
	}
	ports := 0
	for part := range strings.SplitSeq(text, ",") {
		a, b, ok := PortRange(part)
		if !ok {
			p.addf("%s: %.80q is neither a port nor a range of ports", field, part)
			return
		}
		ports += int(b-a) + 1
	}
	if ports > maxPort+1 {
		p.addf("%s names %d ports, some of them more than once; name each once", field, ports)
	}
}

// PortRange reads one part of a list of ports, such as "22" or "8000-8010". ok is false if
// it is neither a port nor a range of ports.
func PortRange(part string) (first, last uint64, ok bool) {
	low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
	if !isRange {
		high = low
	}
	first, errFirst := strconv.ParseUint(low, 10, 16)
	last, errLast := strconv.ParseUint(high, 10, 16)
	return first, last, errFirst == nil && errLast == nil && first <= last
}
