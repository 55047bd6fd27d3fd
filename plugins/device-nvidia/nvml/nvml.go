// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nvml calls NVIDIA's management library, libnvidia-ml, which is installed
// with the GPU driver. The library is opened at run time, so binaries do not depend
// on it: on a machine without it, Open returns an error of class NotFound. The
// package owns the C interface. Package devicenvidia, the only importer, owns the
// mapping to Drover's devices.
//
// The functions, structs and numbers come from nvml.h as NVIDIA documents it at
// https://docs.nvidia.com/deploy/nvml-api/. If an old driver lacks a function, or a GPU
// does not have a value, the error has class Unimplemented.
package nvml

import (
	"fmt"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Library is an open and initialized library. Its methods may be called
// concurrently. They take no context, because the C functions cannot be interrupted:
// a GPU that has fallen off the bus may block one for minutes.
type Library interface {
	// DriverVersion returns the version of the kernel module, such as "550.90.07".
	DriverVersion() (string, error)
	// CUDAVersion returns the newest CUDA version that the driver supports, such as
	// 12.4.
	CUDAVersion() (float64, error)
	// Devices returns the GPUs in bus order. A GPU that has fallen off the bus is
	// included; its methods return errors.
	Devices() ([]Device, error)
	// WaitXid returns the next critical error that the driver reports for a device. ok
	// is false if there was none within the timeout.
	WaitXid(timeoutMS uint32) (e Xid, ok bool, err error)
	// Close shuts the library down. Devices must not be used afterwards.
	Close() error
}

// Device is a GPU or a MIG instance.
type Device interface {
	UUID() (string, error)
	Name() (string, error)
	Minor() (int, error) // N of /dev/nvidiaN
	PCI() (PCI, error)
	Memory() (Memory, error)
	BAR1() (Memory, error)
	PowerLimit() (milliwatts uint32, err error)
	PowerUsage() (milliwatts uint32, err error)
	MaxClock(Clock) (mhz uint32, err error)
	MaxPCIeLink() (generation, width uint32, err error)
	DisplayActive() (bool, error)
	PersistenceMode() (bool, error)
	ComputeCapability() (major, minor int, err error)
	Utilization() (gpu, memory uint32, err error) // percent
	EncoderUtilization() (uint32, error)          // percent
	DecoderUtilization() (uint32, error)          // percent
	Temperature() (celsius uint32, err error)
	ECC() (ECC, error)
	// MemoryFailed reports whether the GPU failed to retire a broken row or page of its
	// memory, so that it must be reset or replaced.
	MemoryFailed() (bool, error)

	// MIGEnabled reports whether the GPU is partitioned. Tasks can then use its
	// instances, but not the GPU itself.
	MIGEnabled() (bool, error)
	// Instances returns the MIG instances of a partitioned GPU.
	Instances() ([]Instance, error)

	// Profiles returns the shapes into which a GPU with MIG on can be divided.
	Profiles() ([]Profile, error)
	// GPUInstances returns the GPU instances of a profile, with compute instances or
	// without.
	GPUInstances(profile uint32) ([]GPUInstance, error)
	// CreateGPUInstance makes one at a place. FailedPrecondition: the place is taken.
	CreateGPUInstance(profile uint32, at Placement) (GPUInstance, error)
	// CreateComputeInstance makes a compute instance of all slices of a GPU instance.
	CreateComputeInstance(gpuInstance int, slices uint32) error
	// DestroyGPUInstance removes a GPU instance with its compute instances. Unavailable: a
	// process uses one. NotFound: there is no such GPU instance.
	DestroyGPUInstance(gpuInstance int) error
}

// Profile is a shape of GPU instances.
type Profile struct {
	ID         uint32
	Name       string // such as "3g.40gb"
	MemoryMB   uint64
	Slices     uint32 // compute slices
	Placements []Placement
}

// Placement is a place on a GPU, in slices of its memory. It has the form of
// nvmlGpuInstancePlacement_t.
type Placement struct{ Start, Size uint32 }

// Overlaps reports whether two GPU instances cannot exist at the same time.
func (p Placement) Overlaps(o Placement) bool {
	return p.Start < o.Start+o.Size && o.Start < p.Start+p.Size
}

// GPUInstance is a part of a GPU.
type GPUInstance struct {
	ID      int
	Profile uint32
	At      Placement
}

// Instance is a MIG instance: a compute instance of a GPU instance.
type Instance struct {
	Device
	Index        int // slot of the instance on its GPU
	GPU, Compute int // ids of the GPU instance and the compute instance, by which /proc lists its device nodes
}

// PCI describes the PCI device.
type PCI struct {
	BusID string // such as "00000000:3B:00.0"
}

// Memory is the size of the memory and its used part, in bytes.
type Memory struct{ Total, Used uint64 }

// ECC counts uncorrected memory errors since the last reset.
type ECC struct{ L1, L2, Memory uint64 }

// Clock is one of the clocks of a GPU.
type Clock uint32

// The clocks.
const (
	ClockGraphics Clock = 0
	ClockSM       Clock = 1
	ClockMemory   Clock = 2
)

// Xid is an error that the driver reports for a device.
// https://docs.nvidia.com/deploy/xid-errors/ lists the numbers.
type Xid struct {
	UUID   string
	Number uint64
}

// code is the return code of the library's functions.
type code uint32

// The codes that we distinguish.
const (
	success        code = 0
	uninitialized  code = 1
	invalid        code = 2
	notSupported   code = 3
	noPermission   code = 4
	notFound       code = 6
	driverNotThere code = 9
	timedOut       code = 10
	gpuLost        code = 15
	resetRequired  code = 16
	inUse          code = 19
	noResources    code = 23
)

// errorOf converts a code to a classed error with the library's text.
func errorOf(function string, c code, text string) error {
	if c == success {
		return nil
	}
	err := fmt.Errorf("%s: %s (%d)", function, text, c)
	switch c {
	case notSupported:
		return errdefs.New(errdefs.Unimplemented, err)
	case noPermission:
		return errdefs.New(errdefs.PermissionDenied, err)
	case notFound, driverNotThere, uninitialized:
		return errdefs.New(errdefs.NotFound, err)
	case timedOut:
		return errdefs.New(errdefs.DeadlineExceeded, err)
	case invalid:
		return errdefs.New(errdefs.InvalidArgument, err)
	case inUse:
		return errdefs.New(errdefs.Unavailable, err)
	case gpuLost, resetRequired, noResources:
		return errdefs.New(errdefs.FailedPrecondition, err)
	default:
		return errdefs.New(errdefs.Unavailable, err)
	}
}
