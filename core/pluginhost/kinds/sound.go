// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a fingerprint, which becomes part of the node in the servers' state.
const (
	maxPrintBytes = 64 << 10
	maxInstances  = 4096
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

// sound reduces a fingerprint to what servers can store and use.
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

// ownAttributes splits the attributes of a driver's fingerprint into those that it may
// set, which are driver.NAME and those that begin with driver.NAME., and the names of
// the others, sorted.
func ownAttributes(driver string, all map[string]string) (own map[string]string, others []string) {
	key := "driver." + driver
	own = make(map[string]string, len(all))
	for k, v := range all {
		if k == key || strings.HasPrefix(k, key+".") {
			own[k] = v
		} else {
			others = append(others, k)
		}
	}
	slices.Sort(others)
	return own, others
}

// soundDevices does the same for devices. Attributes without a value, whose type is newer
// than this agent, are left out.
func soundDevices(f device.Fingerprint) device.Fingerprint {
	instances, size := 0, len(f.Problem)
	for _, g := range f.Groups {
		instances += len(g.Instances)
		maps.DeleteFunc(g.Attributes, func(_ string, a device.Attribute) bool {
			return a.Int == nil && a.Float == nil && a.Text == nil && a.Bool == nil
		})
		for k, a := range g.Attributes {
			size += len(k) + len(a.Unit)
			if a.Text != nil {
				size += len(*a.Text)
			}
		}
	}
	if instances > maxInstances || len(f.Groups) > maxInstances || size > maxPrintBytes {
		return device.Fingerprint{Problem: fmt.Sprintf("the plugin's fingerprint has %d groups with %d devices and %d bytes of attributes, more than an agent takes; the plugin is defective", len(f.Groups), instances, size)}
	}
	return f
}

// soundNetworks does the same for networks, which it also brings into order.
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
