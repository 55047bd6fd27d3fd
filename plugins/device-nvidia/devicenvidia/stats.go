// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// summary is the name of the value that summarizes a device.
const summary = "Memory state"

// Stats implements device.Device.
func (d *Device) Stats(ctx context.Context, interval time.Duration) (<-chan []device.GroupStats, error) {
	if interval <= 0 {
		return nil, errdefs.InvalidArgumentf("an interval of %s cannot be kept", interval)
	}
	out := make(chan []device.GroupStats, 1)
	go func() {
		defer close(out)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			if sample, err := d.measure(ctx); err != nil {
				d.log.Debug("the GPUs cannot be measured", "error", err)
			} else {
				select {
				case <-out: // drop the previous sample, which was not read
				default:
				}
				out <- sample
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return out, nil
}

func (d *Device) measure(ctx context.Context) ([]device.GroupStats, error) {
	c, _ := d.now()
	if !c.Enabled {
		return nil, nil
	}
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	return ask(ctx, d.nvml, func(lib nvml.Library) ([]device.GroupStats, error) {
		gpus, err := lib.Devices()
		if err != nil {
			return nil, err
		}
		var out []device.GroupStats
		for _, gpu := range gpus {
			if on, err := gpu.MIGEnabled(); err == nil && on {
				instances, _ := gpu.Instances() // the instances of a GPU that fails are left out
				offers := map[int]string{}
				if uuid, err := gpu.UUID(); err == nil && len(c.MIG) > 0 {
					offers = offersOf(gpu, uuid)
				}
				for _, i := range instances {
					if len(c.MIG) == 0 || offers[i.GPU] != "" {
						out = d.sample(out, i, offers[i.GPU], c)
					}
				}
				continue
			}
			out = d.sample(out, gpu, "", c)
		}
		return idle(out, last), nil
	})
}

// idle adds the offers whose instances no task has made: none of their memory is used.
func idle(into []device.GroupStats, last *inventory) []device.GroupStats {
	if last == nil {
		return into
	}
	for _, one := range last.devices {
		if one.offer == nil {
			continue
		}
		at := slices.IndexFunc(into, func(g device.GroupStats) bool { return g.Name == one.name })
		if at < 0 {
			into, at = append(into, device.GroupStats{Vendor: "nvidia", Type: "gpu", Name: one.name, Instances: map[string]device.Stats{}}), len(into)
		}
		if _, measured := into[at].Instances[one.id]; !measured {
			none, most := int64(0), float64(one.offer.profile.MemoryMB)
			into[at].Instances[one.id] = device.Stats{Summary: summary, Time: time.Now(), Values: map[string]device.Value{
				summary: {Int: &none, Of: &most, Unit: "MiB", Description: "memory that is used"},
			}}
		}
	}
	return into
}

// sample adds the values of one device, to each of its shares: the library measures only
// whole devices. id is the id of the device if that is not its UUID. A device without a
// UUID or name is left out.
func (d *Device) sample(into []device.GroupStats, one nvml.Device, id string, c config) []device.GroupStats {
	uuid, err := one.UUID()
	id = cmp.Or(id, uuid)
	if err != nil || slices.Contains(c.Ignored, id) {
		return into
	}
	name, err := one.Name()
	if err != nil {
		return into
	}
	at := slices.IndexFunc(into, func(g device.GroupStats) bool { return g.Name == name })
	if at < 0 {
		into, at = append(into, device.GroupStats{Vendor: "nvidia", Type: "gpu", Name: name, Instances: map[string]device.Stats{}}), len(into)
	}
	now := device.Stats{Summary: summary, Values: values(one), Time: time.Now()}
	for n := range c.Shares {
		into[at].Instances[shareID(id, n, c.Shares)] = now
	}
	return into
}

// values returns the measured values, with the names of the reference's plugin.
func values(one nvml.Device) map[string]device.Value {
	out := map[string]device.Value{}
	number := func(name, unit, what string, read func() (uint32, error)) {
		if v, err := read(); err == nil {
			n := int64(v)
			out[name] = device.Value{Int: &n, Unit: unit, Description: what}
		}
	}
	share := func(name, unit, what string, used, of uint64) {
		n, most := int64(used), float64(of)
		out[name] = device.Value{Int: &n, Of: &most, Unit: unit, Description: what}
	}
	if m, err := one.Memory(); err == nil {
		share(summary, "MiB", "memory that is used", m.Used/mib, m.Total/mib)
	}
	if m, err := one.BAR1(); err == nil {
		share("BAR1 buffer state", "MiB", "memory of the GPU that is mapped for the machine's processors", m.Used/mib, m.Total/mib)
	}
	if used, err := one.PowerUsage(); err == nil {
		if limit, err := one.PowerLimit(); err == nil {
			share("Power usage", "W", "power that the GPU and its memory draw", uint64(used/1000), uint64(limit/1000))
		}
	}
	number("Temperature", "C", "of the GPU's die", one.Temperature)
	number("Encoder utilization", "%", "share of the time in which the video encoder worked", one.EncoderUtilization)
	number("Decoder utilization", "%", "share of the time in which the video decoder worked", one.DecoderUtilization)
	if gpu, memory, err := one.Utilization(); err == nil {
		number("GPU utilization", "%", "share of the time in which a kernel ran", func() (uint32, error) { return gpu, nil })
		number("Memory utilization", "%", "share of the time in which memory was read or written", func() (uint32, error) { return memory, nil })
	}
	if ecc, err := one.ECC(); err == nil {
		for name, n := range map[string]uint64{"ECC L1 errors": ecc.L1, "ECC L2 errors": ecc.L2, "ECC memory errors": ecc.Memory} {
			v := int64(n)
			out[name] = device.Value{Int: &v, Unit: "#", Description: "errors that were not corrected since the driver was loaded"}
		}
	}
	return out
}
