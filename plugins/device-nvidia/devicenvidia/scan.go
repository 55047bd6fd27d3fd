// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	device "github.com/drover-project/drover/sdk/device/v1"
)

// found is a device that tasks can use: a GPU or a MIG instance.
type found struct {
	id, name, bus string
	gpu           string // UUID of the whole GPU
	index         string // its name in CDI specifications besides the UUID
	minor         int    // minor number of the GPU's device node; -1 if unknown
	mig           *migID
	offer         *offer // the MIG instance that is made when a task gets it; else nil
	healthy       bool
	why           string // why it is unhealthy; empty if it is healthy
	attributes    map[string]device.Attribute
}

// migID identifies a MIG instance in /proc/driver/nvidia/capabilities.
type migID struct{ gpu, compute int }

// inventory is the result of a scan, in the library's order.
type inventory struct {
	devices []found
}

// scan queries all devices and stores the result. Devices of the previous scan that
// no longer answer stay in the inventory as unhealthy. The inventory is valid even
// if the error, which says what did not answer, is not nil.
func (d *Device) scan(ctx context.Context, c config) (*inventory, error) {
	inv, err := ask(ctx, d.nvml, func(lib nvml.Library) (*inventory, error) { return look(lib, c.Ignored, c.MIG) })
	if inv == nil {
		inv = &inventory{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil && err != nil { // the caller gave up
		return inv, err
	}
	if err != nil && d.last != nil {
		inv.keep(d.last, err)
	}
	for i := range inv.devices {
		one := &inv.devices[i]
		if xid, bad := d.xids[one.gpu]; bad && one.healthy {
			one.healthy, one.why = false, fmt.Sprintf("the driver reported Xid %d; reset the GPU, then run 'drover plugin reload device-nvidia'", xid)
		}
	}
	d.last = inv
	return inv, err
}

// keep adds the devices of the previous inventory that this one lacks, as unhealthy.
func (inv *inventory) keep(before *inventory, reason error) {
	for _, one := range before.devices {
		if !slices.ContainsFunc(inv.devices, func(f found) bool { return f.id == one.id }) {
			one.healthy, one.why = false, "it does not answer: "+reason.Error()
			inv.devices = append(inv.devices, one)
		}
	}
}

// look queries all devices. A GPU that fails does not hide the others.
func look(lib nvml.Library, ignored, profiles []string) (*inventory, error) {
	driver, err := lib.DriverVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the driver's version: %w", err)
	}
	cuda, cudaErr := lib.CUDAVersion()
	gpus, err := lib.Devices()
	if err != nil {
		return nil, fmt.Errorf("list the GPUs: %w", err)
	}
	inv := &inventory{}
	var failed []error
	for i, gpu := range gpus {
		all, err := describe(gpu, i, profiles)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, one := range all {
			if slices.Contains(ignored, one.id) {
				continue
			}
			one.attributes["driver_version"] = device.Text(driver)
			if cudaErr == nil {
				one.attributes["cuda_driver_version"] = device.Float(cuda, "")
			}
			inv.devices = append(inv.devices, one)
		}
	}
	return inv, errors.Join(failed...)
}

// describe returns the GPU, or its instances if MIG is enabled.
func describe(gpu nvml.Device, index int, profiles []string) ([]found, error) {
	whole := found{index: strconv.Itoa(index), minor: -1, healthy: true, attributes: map[string]device.Attribute{}}
	var err error
	if whole.id, err = gpu.UUID(); err != nil {
		return nil, fmt.Errorf("ask GPU %d for its UUID: %w", index, err)
	}
	whole.gpu = whole.id
	if whole.name, err = gpu.Name(); err != nil {
		return nil, fmt.Errorf("ask GPU %s for its name: %w", whole.id, err)
	}
	if pci, err := gpu.PCI(); err == nil {
		whole.bus = pci.BusID
	}
	if minor, err := gpu.Minor(); err == nil {
		whole.minor = minor
	}
	if failed, err := gpu.MemoryFailed(); err == nil && failed {
		whole.healthy, whole.why = false, "a broken row of its memory could not be remapped; replace the GPU"
	}
	describeGPU(gpu, whole.attributes)
	if on, err := gpu.MIGEnabled(); err != nil || !on {
		whole.attributes["mig"] = device.Bool(false)
		describeMemory(gpu, whole.attributes)
		return []found{whole}, nil
	}
	if len(profiles) > 0 {
		return describeOffers(gpu, whole, profiles)
	}
	return describeInstances(gpu, whole)
}

func describeInstances(gpu nvml.Device, whole found) ([]found, error) {
	instances, err := gpu.Instances()
	if err != nil {
		return nil, fmt.Errorf("list the MIG instances of GPU %s: %w", whole.id, err)
	}
	var out []found
	for _, i := range instances {
		one := whole
		one.mig, one.index = &migID{i.GPU, i.Compute}, fmt.Sprintf("%s:%d", whole.index, i.Index)
		if one.id, err = i.UUID(); err != nil {
			return nil, fmt.Errorf("ask a MIG instance of GPU %s for its UUID: %w", whole.id, err)
		}
		if one.name, err = i.Name(); err != nil {
			return nil, fmt.Errorf("ask MIG instance %s for its name: %w", one.id, err)
		}
		one.attributes = map[string]device.Attribute{}
		describeGPU(gpu, one.attributes)
		describeMemory(i, one.attributes)
		one.attributes["mig"] = device.Bool(true)
		out = append(out, one)
	}
	return out, nil
}

// groups groups devices by name. A group's attributes apply to all of its instances, so an
// attribute in which devices differ becomes an attribute of each instance. The list begins
// with the first share of each device, then come the second shares and so on: the scheduler
// takes the first free instances, and so spreads tasks over the devices.
func (inv *inventory) groups(shares int) []device.Group {
	var out []device.Group
	for _, one := range inv.devices {
		at := slices.IndexFunc(out, func(g device.Group) bool { return g.Name == one.name })
		if at < 0 {
			g := device.Group{Vendor: "nvidia", Type: "gpu", Name: one.name, Attributes: map[string]device.Attribute{}}
			for name, a := range one.attributes {
				g.Attributes[name] = a
			}
			out, at = append(out, g), len(out)
		} else {
			for name, a := range out[at].Attributes {
				if !reflect.DeepEqual(a, one.attributes[name]) {
					delete(out[at].Attributes, name)
				}
			}
		}
		out[at].Instances = append(out[at].Instances, device.Instance{ID: one.id, Healthy: one.healthy, HealthDescription: one.why, PCIBusID: one.bus})
	}
	for _, g := range out {
		inv.differ(g)
	}
	for i := range out {
		out[i].Attributes["shares"] = device.Int(int64(shares), "")
		out[i].Instances = shared(out[i].Instances, shares)
	}
	return out
}

// differ gives the instances of a group the attributes in which they differ.
func (inv *inventory) differ(g device.Group) {
	for i := range g.Instances {
		one, _ := inv.find(g.Instances[i].ID)
		for name, a := range one.attributes {
			if _, of := g.Attributes[name]; of {
				continue
			}
			if g.Instances[i].Attributes == nil {
				g.Instances[i].Attributes = map[string]device.Attribute{}
			}
			g.Instances[i].Attributes[name] = a
		}
	}
}

func same(a, b device.Fingerprint) bool { return reflect.DeepEqual(a, b) }
