// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build amd64 || arm64

package nvml

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"github.com/drover-project/drover/sdk/errdefs"
)

// profileInfo is nvmlGpuInstanceProfileInfo_v2_t.
type profileInfo struct {
	version, id, p2p, slices, instances, processors, copies, decoders, encoders, jpeg, ofa uint32
	memoryMB                                                                               uint64
	name                                                                                   [96]byte
}

// The numbers of profiles of GPU instances and of compute instances are below these.
const (
	gpuProfiles     = 16
	computeProfiles = 8
)

// most is the most instances and placements that are read of a GPU: it has at most eight
// slices.
const most = 64

func (d *gpu) Profiles() ([]Profile, error) {
	var out []Profile
	for i := range uintptr(gpuProfiles) {
		var v profileInfo
		v.version = uint32(unsafe.Sizeof(v)) | 2<<24
		err := d.call("nvmlDeviceGetGpuInstanceProfileInfoV", i, uintptr(unsafe.Pointer(&v)))
		if errdefs.IsUnimplemented(err) && d.lib.symbol("nvmlDeviceGetGpuInstanceProfileInfoV") != 0 || errdefs.IsInvalidArgument(err) {
			continue // the GPU has no such profile
		}
		if err != nil {
			return nil, err
		}
		name, _, _ := bytes.Cut(v.name[:], []byte{0})
		p := Profile{ID: v.id, Name: strings.TrimPrefix(string(name), "MIG "), MemoryMB: v.memoryMB, Slices: v.slices}
		var at [most]Placement
		n := uint32(len(at))
		if err := d.call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", uintptr(v.id), uintptr(unsafe.Pointer(&at[0])), uintptr(unsafe.Pointer(&n))); err != nil {
			return nil, fmt.Errorf("places of profile %s: %w", p.Name, err)
		}
		p.Placements = append(p.Placements, at[:min(n, most)]...)
		out = append(out, p)
	}
	return out, nil
}

// gpuInstanceInfo is nvmlGpuInstanceInfo_t.
type gpuInstanceInfo struct {
	device      uintptr
	id, profile uint32
	at          Placement
}

func (d *gpu) GPUInstances(profile uint32) ([]GPUInstance, error) {
	var handles [most]uintptr
	n := uint32(len(handles))
	if err := d.call("nvmlDeviceGetGpuInstances", uintptr(profile), uintptr(unsafe.Pointer(&handles[0])), uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	var out []GPUInstance
	for _, h := range handles[:min(n, most)] {
		one, err := d.gpuInstance(h)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (d *gpu) gpuInstance(handle uintptr) (GPUInstance, error) {
	var v gpuInstanceInfo
	err := d.lib.call("nvmlGpuInstanceGetInfo", handle, uintptr(unsafe.Pointer(&v)))
	return GPUInstance{ID: int(v.id), Profile: v.profile, At: v.at}, err
}

func (d *gpu) CreateGPUInstance(profile uint32, at Placement) (GPUInstance, error) {
	var handle uintptr
	if err := d.call("nvmlDeviceCreateGpuInstanceWithPlacement", uintptr(profile), uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&handle))); err != nil {
		return GPUInstance{}, err
	}
	return d.gpuInstance(handle)
}

// handleOf returns the handle of a GPU instance.
func (d *gpu) handleOf(id int) (uintptr, error) {
	var handle uintptr
	err := d.call("nvmlDeviceGetGpuInstanceById", uintptr(id), uintptr(unsafe.Pointer(&handle)))
	return handle, err
}

// computeInfo is the beginning of nvmlComputeInstanceProfileInfo_t.
type computeInfo struct {
	id, slices uint32
	rest       [16]uint32
}

func (d *gpu) CreateComputeInstance(id int, slices uint32) error {
	handle, err := d.handleOf(id)
	if err != nil {
		return err
	}
	const shared = 0 // nvmlComputeInstanceEngineProfile
	for i := range uintptr(computeProfiles) {
		var v computeInfo
		if d.lib.call("nvmlGpuInstanceGetComputeInstanceProfileInfo", handle, i, shared, uintptr(unsafe.Pointer(&v))) != nil || v.slices != slices {
			continue // a profile that this GPU instance does not have, or a part of it
		}
		var made uintptr
		return d.lib.call("nvmlGpuInstanceCreateComputeInstance", handle, uintptr(v.id), uintptr(unsafe.Pointer(&made)))
	}
	return errdefs.Unimplementedf("GPU instance %d has no compute instance of %d slices", id, slices)
}

func (d *gpu) DestroyGPUInstance(id int) error {
	handle, err := d.handleOf(id)
	if err != nil {
		return err
	}
	const shared = 0
	for i := range uintptr(computeProfiles) {
		var v computeInfo
		if d.lib.call("nvmlGpuInstanceGetComputeInstanceProfileInfo", handle, i, shared, uintptr(unsafe.Pointer(&v))) != nil {
			continue
		}
		var parts [most]uintptr
		n := uint32(len(parts))
		if err := d.lib.call("nvmlGpuInstanceGetComputeInstances", handle, uintptr(v.id), uintptr(unsafe.Pointer(&parts[0])), uintptr(unsafe.Pointer(&n))); err != nil {
			return err
		}
		for _, part := range parts[:min(n, most)] {
			if err := d.lib.call("nvmlComputeInstanceDestroy", part); err != nil {
				return err
			}
		}
	}
	return d.lib.call("nvmlGpuInstanceDestroy", handle)
}
