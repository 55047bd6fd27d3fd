// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nvml calls NVIDIA's management library, libnvidia-ml, which comes with
// the driver of the GPUs. The library is opened when it is needed and is linked
// into nothing: on a machine without it Open returns an error of class NotFound.
// It owns the C interface and nothing of what devices mean to Drover
// (devicenvidia does), which alone imports it.
//
// The functions, structs and numbers are those of nvml.h as NVIDIA documents
// them at https://docs.nvidia.com/deploy/nvml-api/. A function that an old driver
// lacks returns an error of class Unimplemented, as does a value that a GPU has
// not.
package nvml

import (
	"fmt"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Library is an open and initialised library. Its methods may be called at the
// same time. They take no context: the C functions cannot be interrupted, and a
// GPU that has fallen off its bus can keep one for minutes.
type Library interface {
	// DriverVersion is that of the kernel's module, as "550.90.07".
	DriverVersion() (string, error)
	// CUDAVersion is the newest that the driver supports, as 12.4.
	CUDAVersion() (float64, error)
	// Devices are the GPUs in the library's order, which is that of the bus. One
	// that has fallen off the bus is among them: its methods say so.
	Devices() ([]Device, error)
	// WaitXid returns the next critical error that the driver reports of any of
	// the devices, or ok false when none came within the timeout.
	WaitXid(timeoutMS uint32) (e Xid, ok bool, err error)
	// Close gives the library back. Devices are invalid from then on.
	Close() error
}

// Device is a GPU or a MIG instance of one.
type Device interface {
	UUID() (string, error)
	Name() (string, error)
	Minor() (int, error) // of /dev/nvidiaN
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
	// MemoryFailed says that the GPU could not take a broken row or page of its
	// memory out of use, so that it must be replaced or reset.
	MemoryFailed() (bool, error)

	// MIGEnabled says whether the GPU is divided. Its instances are then what
	// tasks can use, and it is not.
	MIGEnabled() (bool, error)
	// Instances are the MIG instances of a divided GPU.
	Instances() ([]Instance, error)
}

// Instance is a MIG instance: a compute instance of a GPU instance.
type Instance struct {
	Device
	Index        int // among the places for instances on its GPU
	GPU, Compute int // instance ids, by which its nodes in /proc are found
}

// PCI is a place on the bus.
type PCI struct {
	BusID string // as "00000000:3B:00.0"
}

// Memory is in bytes.
type Memory struct{ Total, Used uint64 }

// ECC counts errors of memory that could not be corrected since the last reset.
type ECC struct{ L1, L2, Memory uint64 }

// Clock is one of the clocks of a GPU.
type Clock uint32

// The clocks.
const (
	ClockGraphics Clock = 0
	ClockSM       Clock = 1
	ClockMemory   Clock = 2
)

// Xid is an error that the driver reports of a device; the numbers are those of
// https://docs.nvidia.com/deploy/xid-errors/.
type Xid struct {
	UUID   string
	Number uint64
}

// code is what each function of the library returns.
type code uint32

// The codes that mean something to us.
const (
	success        code = 0
	uninitialized  code = 1
	notSupported   code = 3
	noPermission   code = 4
	notFound       code = 6
	driverNotThere code = 9
	timedOut       code = 10
	gpuLost        code = 15
	resetRequired  code = 16
)

// errorOf classes a code. The text of the library comes with it.
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
	case gpuLost, resetRequired:
		return errdefs.New(errdefs.FailedPrecondition, err)
	default:
		return errdefs.New(errdefs.Unavailable, err)
	}
}
