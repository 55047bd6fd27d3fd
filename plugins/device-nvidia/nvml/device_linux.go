// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build amd64 || arm64

package nvml

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/drover-project/drover/sdk/errdefs"
)

// gpu is an nvmlDevice_t: a GPU or a MIG instance.
type gpu struct {
	lib    *library
	handle uintptr
	lost   error // error of every call if the GPU has no handle
}

// call calls a function that takes the device as its first argument.
//
//go:uintptrescapes
func (d *gpu) call(function string, args ...uintptr) error {
	if d.lost != nil {
		return d.lost
	}
	return d.lib.call(function, append([]uintptr{d.handle}, args...)...)
}

func (d *gpu) number(function string) (uint32, error) {
	var v uint32
	err := d.call(function, uintptr(unsafe.Pointer(&v)))
	return v, err
}

func (d *gpu) truth(function string) (bool, error) {
	v, err := d.number(function)
	return v != 0, err
}

func (d *gpu) read(function string) (string, error) {
	if d.lost != nil {
		return "", d.lost
	}
	return d.lib.read(function, d.handle)
}

func (d *gpu) UUID() (string, error) { return d.read("nvmlDeviceGetUUID") }

func (d *gpu) Name() (string, error) { return d.read("nvmlDeviceGetName") }

func (d *gpu) Minor() (int, error) {
	v, err := d.number("nvmlDeviceGetMinorNumber")
	return int(v), err
}

// pciInfo is nvmlPciInfo_t.
type pciInfo struct {
	legacy                                 [16]byte
	domain, bus, device, vendor, subsystem uint32
	id                                     [32]byte
}

func (d *gpu) PCI() (PCI, error) {
	var v pciInfo
	if err := d.call("nvmlDeviceGetPciInfo_v3", uintptr(unsafe.Pointer(&v))); err != nil {
		return PCI{}, err
	}
	id, _, _ := bytes.Cut(v.id[:], []byte{0})
	return PCI{BusID: string(id)}, nil
}

func (d *gpu) Memory() (Memory, error) {
	var v struct{ total, free, used uint64 }
	err := d.call("nvmlDeviceGetMemoryInfo", uintptr(unsafe.Pointer(&v)))
	return Memory{Total: v.total, Used: v.used}, err
}

func (d *gpu) BAR1() (Memory, error) {
	var v struct{ total, free, used uint64 }
	err := d.call("nvmlDeviceGetBAR1MemoryInfo", uintptr(unsafe.Pointer(&v)))
	return Memory{Total: v.total, Used: v.used}, err
}

func (d *gpu) PowerLimit() (uint32, error) { return d.number("nvmlDeviceGetPowerManagementLimit") }

func (d *gpu) PowerUsage() (uint32, error) { return d.number("nvmlDeviceGetPowerUsage") }

func (d *gpu) MaxClock(c Clock) (uint32, error) {
	var v uint32
	err := d.call("nvmlDeviceGetMaxClockInfo", uintptr(c), uintptr(unsafe.Pointer(&v)))
	return v, err
}

func (d *gpu) MaxPCIeLink() (generation, width uint32, err error) {
	if generation, err = d.number("nvmlDeviceGetMaxPcieLinkGeneration"); err != nil {
		return 0, 0, err
	}
	width, err = d.number("nvmlDeviceGetMaxPcieLinkWidth")
	return generation, width, err
}

func (d *gpu) DisplayActive() (bool, error) { return d.truth("nvmlDeviceGetDisplayActive") }

func (d *gpu) PersistenceMode() (bool, error) { return d.truth("nvmlDeviceGetPersistenceMode") }

func (d *gpu) ComputeCapability() (int, int, error) {
	var major, minor int32
	err := d.call("nvmlDeviceGetCudaComputeCapability", uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor)))
	return int(major), int(minor), err
}

func (d *gpu) Utilization() (uint32, uint32, error) {
	var v struct{ gpu, memory uint32 }
	err := d.call("nvmlDeviceGetUtilizationRates", uintptr(unsafe.Pointer(&v)))
	return v.gpu, v.memory, err
}

func (d *gpu) EncoderUtilization() (uint32, error) {
	var percent, periodUS uint32
	err := d.call("nvmlDeviceGetEncoderUtilization", uintptr(unsafe.Pointer(&percent)), uintptr(unsafe.Pointer(&periodUS)))
	return percent, err
}

func (d *gpu) DecoderUtilization() (uint32, error) {
	var percent, periodUS uint32
	err := d.call("nvmlDeviceGetDecoderUtilization", uintptr(unsafe.Pointer(&percent)), uintptr(unsafe.Pointer(&periodUS)))
	return percent, err
}

func (d *gpu) Temperature() (uint32, error) {
	const sensorGPU = 0
	var v uint32
	err := d.call("nvmlDeviceGetTemperature", sensorGPU, uintptr(unsafe.Pointer(&v)))
	return v, err
}

// ECC returns the number of uncorrected errors since the driver was loaded.
func (d *gpu) ECC() (ECC, error) {
	const uncorrected, volatile = 1, 0
	var v struct{ l1, l2, memory, registers uint64 }
	err := d.call("nvmlDeviceGetDetailedEccErrors", uncorrected, volatile, uintptr(unsafe.Pointer(&v)))
	return ECC{L1: v.l1, L2: v.l2, Memory: v.memory}, err
}

// MemoryFailed reports whether rows could not be remapped.
func (d *gpu) MemoryFailed() (bool, error) {
	var corrected, uncorrected, pending, failed uint32
	err := d.call("nvmlDeviceGetRemappedRows", uintptr(unsafe.Pointer(&corrected)),
		uintptr(unsafe.Pointer(&uncorrected)), uintptr(unsafe.Pointer(&pending)), uintptr(unsafe.Pointer(&failed)))
	return failed != 0, err
}

func (d *gpu) MIGEnabled() (bool, error) {
	var current, pending uint32
	err := d.call("nvmlDeviceGetMigMode", uintptr(unsafe.Pointer(&current)), uintptr(unsafe.Pointer(&pending)))
	return current != 0, err
}

func (d *gpu) Instances() ([]Instance, error) {
	most, err := d.number("nvmlDeviceGetMaxMigDeviceCount")
	if err != nil {
		return nil, err
	}
	var out []Instance
	for i := range most {
		one := &gpu{lib: d.lib}
		err := d.call("nvmlDeviceGetMigDeviceHandleByIndex", uintptr(i), uintptr(unsafe.Pointer(&one.handle)))
		if errdefs.IsNotFound(err) {
			continue // the slots of instances may have gaps
		}
		if err != nil {
			return nil, fmt.Errorf("MIG instance %d: %w", i, err)
		}
		instance := Instance{Device: one, Index: int(i)}
		if instance.GPU, instance.Compute, err = one.instanceIDs(); err != nil {
			return nil, fmt.Errorf("MIG instance %d: %w", i, err)
		}
		out = append(out, instance)
	}
	return out, nil
}

func (d *gpu) instanceIDs() (gpuID, computeID int, err error) {
	g, err := d.number("nvmlDeviceGetGpuInstanceId")
	if err != nil {
		return 0, 0, err
	}
	c, err := d.number("nvmlDeviceGetComputeInstanceId")
	return int(g), int(c), err
}
