// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"fmt"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	device "github.com/drover-project/drover/sdk/device/v1"
)

const mib = 1 << 20

// laneMBs is the bandwidth of one PCI Express lane in MB/s by generation, after the
// encoding: 8b/10b up to generation 2, 128b/130b from generation 3 on.
var laneMBs = map[uint32]int64{1: 250, 2: 500, 3: 985, 4: 1969, 5: 3938, 6: 7563}

// describeGPU adds the attributes of a whole GPU, with the names of the reference's
// plugin. It leaves out what the GPU does not report.
func describeGPU(gpu nvml.Device, into map[string]device.Attribute) {
	if mw, err := gpu.PowerLimit(); err == nil {
		into["power"] = device.Int(int64(mw/1000), "W")
	}
	if mhz, err := gpu.MaxClock(nvml.ClockSM); err == nil {
		into["cores_clock"] = device.Int(int64(mhz), "MHz")
	}
	if mhz, err := gpu.MaxClock(nvml.ClockMemory); err == nil {
		into["memory_clock"] = device.Int(int64(mhz), "MHz")
	}
	if generation, width, err := gpu.MaxPCIeLink(); err == nil && laneMBs[generation] > 0 {
		into["pci_bandwidth"] = device.Int(laneMBs[generation]*int64(width), "MB/s")
	}
	if bar, err := gpu.BAR1(); err == nil {
		into["bar1"] = device.Int(int64(bar.Total/mib), "MiB")
	}
	if on, err := gpu.DisplayActive(); err == nil {
		into["display_state"] = device.Text(state(on))
	}
	if on, err := gpu.PersistenceMode(); err == nil {
		into["persistence_mode"] = device.Text(state(on))
	}
	if major, minor, err := gpu.ComputeCapability(); err == nil {
		into["compute_capability"] = device.Text(fmt.Sprintf("%d.%d", major, minor))
	}
}

func describeMemory(d nvml.Device, into map[string]device.Attribute) {
	if m, err := d.Memory(); err == nil {
		into["memory"] = device.Int(int64(m.Total/mib), "MiB")
	}
}

func state(on bool) string {
	if on {
		return "Enabled"
	}
	return "Disabled"
}
