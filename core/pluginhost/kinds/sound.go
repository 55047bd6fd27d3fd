// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a fingerprint, which becomes part of the node in the servers' state.
const (
	maxPrintBytes  = 64 << 10
	maxInstances   = 4096
	maxDeviceBytes = 1 << 20 // of all texts of all devices of a plugin
)

// isolations are the file system isolations that the agent supports.
var isolations = []driver.FSIsolation{"", "none", "chroot", "image"}

// checkDriver rejects a driver whose Info the agent cannot support.
func checkDriver(b *driverBackend) error {
	info := b.Info()
	if info.Name == "" {
		return errdefs.FailedPreconditionf("serves a driver without a name; the plugin is defective")
	}
	if i := info.Capabilities.FSIsolation; !slices.Contains(isolations, i) {
		return errdefs.FailedPreconditionf("driver %q isolates file systems in the way %q, and this agent knows %q; install a version of the plugin that fits", info.Name, i, isolations[1:])
	}
	if c := info.Capabilities; c.UnknownUser && (c.DefaultUser != "" || c.DynamicUsers) {
		return errdefs.FailedPreconditionf("driver %q says that only it knows the users of its tasks (UnknownUser), and names them as well (DefaultUser or DynamicUsers); the plugin is defective", info.Name)
	}
	if err := info.ConfigSchema.Check(); err != nil {
		return errdefs.FailedPreconditionf("driver %q: the schema of its config is unsound; the plugin is defective: %w", info.Name, err)
	}
	if err := info.TaskConfigSchema.Check(); err != nil {
		return errdefs.FailedPreconditionf("driver %q: the schema of a task's config is unsound; the plugin is defective: %w", info.Name, err)
	}
	return nil
}

// sound removes everything from a fingerprint that servers cannot store or use.
func sound(f driver.Fingerprint) driver.Fingerprint {
	size := len(f.HealthDescription)
	for k, v := range f.Attributes {
		size += len(k) + len(v)
	}
	switch {
	case size > maxPrintBytes:
		return driver.Fingerprint{Health: driver.HealthUnhealthy, HealthDescription: fmt.Sprintf("the driver's fingerprint has %d bytes, more than %d; the plugin is defective", size, maxPrintBytes)}
	case f.Health != driver.HealthHealthy && f.Health != driver.HealthUnhealthy && f.Health != driver.HealthUndetected:
		f.HealthDescription = fmt.Sprintf("the driver says that it is %.40q, which is not a health that this agent knows", f.Health)
		f.Health = driver.HealthUnhealthy
	}
	return f
}

// ownAttributes splits the attributes of a driver's fingerprint. It may set driver.NAME and
// attributes that begin with driver.NAME.; the names of all others are returned as refused,
// sorted. So are names that servers refuse, because a plugin must not keep its node from
// registering.
func ownAttributes(driver string, all map[string]string) (own map[string]string, others []string) {
	key := "driver." + driver
	own = make(map[string]string, len(all))
	for k, v := range all {
		if fits(k) && (k == key || strings.HasPrefix(k, key+".")) {
			own[k] = v
		} else {
			others = append(others, fmt.Sprintf("%.80s", k))
		}
	}
	slices.Sort(others)
	return own, others
}

// fits reports whether servers accept the name of an attribute.
func fits(name string) bool {
	return len(name) <= model.MaxNodeKey && !strings.ContainsRune(name, 0)
}

// soundDevices removes everything from the fingerprint of a device plugin that servers cannot
// store or use. It leaves out impossible values, too, because servers refuse a node with them,
// and one device plugin must not keep its node from registering.
func soundDevices(f device.Fingerprint) device.Fingerprint {
	instances, size, all := 0, len(f.Problem), 0
	for _, g := range f.Groups {
		instances += len(g.Instances)
		all += len(g.Vendor) + len(g.Type) + len(g.Name)
		size += soundAttributes(g.Attributes)
		for i := range g.Instances {
			one := &g.Instances[i]
			all += len(one.ID) + len(one.PCIBusID) + len(one.HealthDescription) + soundAttributes(one.Attributes)
			if n := one.NUMANode; n != nil && (*n < 0 || *n > model.MaxNUMANode) {
				one.NUMANode = nil
			}
		}
	}
	if instances > maxInstances || len(f.Groups) > maxInstances || size > maxPrintBytes || all > maxDeviceBytes {
		return device.Fingerprint{Problem: fmt.Sprintf("the plugin's fingerprint has %d groups with %d devices, %d bytes of attributes and %d bytes about single devices, more than an agent takes; the plugin is defective", len(f.Groups), instances, size, all)}
	}
	return f
}

// soundAttributes removes attributes without a value, whose type is newer than this agent,
// values that are not numbers, and names that servers refuse. It returns the size of the rest.
func soundAttributes(all map[string]device.Attribute) (size int) {
	maps.DeleteFunc(all, func(name string, a device.Attribute) bool {
		none := a.Int == nil && a.Float == nil && a.Text == nil && a.Bool == nil
		return none || !fits(name) || a.Float != nil && (math.IsNaN(*a.Float) || math.IsInf(*a.Float, 0))
	})
	for name, a := range all {
		size += len(name) + len(a.Unit)
		if a.Text != nil {
			size += len(*a.Text)
		}
	}
	return size
}

// soundNetworks removes the same from the fingerprint of a network plugin, and sorts its
// networks.
func soundNetworks(f network.Fingerprint) network.Fingerprint {
	size := len(f.Problem)
	for _, name := range f.Networks {
		size += len(name)
	}
	for k, v := range f.Attributes {
		size += len(k) + len(v)
	}
	if size > maxPrintBytes {
		return network.Fingerprint{Problem: fmt.Sprintf("the plugin's fingerprint has %d networks and %d bytes, more than an agent takes; the plugin is defective", len(f.Networks), size)}
	}
	f.Networks = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(f.Networks))), func(name string) bool { return name == "" })
	return f
}

// soundVolumes returns the fingerprint of a storage plugin with sorted capabilities, or one
// that says that it is larger than an agent takes.
func soundVolumes(f volume.Fingerprint) volume.Fingerprint {
	size := len(f.Problem) + len(f.Provider) + len(f.ProviderVersion)
	for _, c := range f.Capabilities {
		size += len(c)
	}
	if f.Node != nil {
		size += len(f.Node.ID)
		for k, v := range f.Node.Topology {
			size += len(k) + len(v)
		}
	}
	if size > maxPrintBytes {
		return volume.Fingerprint{Problem: fmt.Sprintf("the plugin's fingerprint has %d bytes, more than an agent takes; the plugin is defective", size)}
	}
	f.Capabilities = slices.Compact(slices.Sorted(slices.Values(f.Capabilities)))
	return f
}
