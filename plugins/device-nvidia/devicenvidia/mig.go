// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// MIG instances on demand: with mig_profiles, a GPU whose MIG mode is on is offered as
// these profiles, each at a place of its own that is computed from the list. So all offers
// can exist at the same time, in whatever order tasks come and go. An instance is made when
// a task reserves it and destroyed when the task has released it. There is no record: a GPU
// instance with the profile and place of an offer belongs to that offer, even if this
// process was killed while making it.

// maxProfiles is the most slices of a GPU.
const maxProfiles = 8

// offer is a MIG instance that a task can get. It exists only while a task has it.
type offer struct {
	profile nvml.Profile
	at      nvml.Placement
}

// offerID returns the id of an offer, such as "GPU-6b0a:3g.40gb:4".
func offerID(gpu, profile string, start uint32) string {
	return gpu + ":" + profile + ":" + strconv.FormatUint(uint64(start), 10)
}

// parseOffer returns the parts of an id of an offer.
func parseOffer(id string) (gpu, profile string, start uint32, ok bool) {
	parts := strings.Split(id, ":")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return "", "", 0, false
	}
	n, err := strconv.ParseUint(parts[2], 10, 32)
	return parts[0], parts[1], uint32(n), err == nil && offerID(parts[0], parts[1], uint32(n)) == id
}

// arrange returns a place for each of the profiles, or an error if they do not fit on a GPU
// together. Large ones are placed first. The result depends only on its arguments.
func arrange(known []nvml.Profile, names []string) ([]offer, error) {
	var out []offer
	for _, name := range names {
		i := slices.IndexFunc(known, func(p nvml.Profile) bool { return p.Name == name })
		if i < 0 {
			var have []string
			for _, p := range known {
				have = append(have, p.Name)
			}
			return nil, errdefs.InvalidArgumentf("mig_profiles: it has no profile %q; it has %s", name, strings.Join(have, ", "))
		}
		out = append(out, offer{profile: known[i]})
	}
	size := func(o offer) uint32 {
		if len(o.profile.Placements) == 0 {
			return 0
		}
		return o.profile.Placements[0].Size
	}
	slices.SortStableFunc(out, func(a, b offer) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.profile.Name, b.profile.Name))
	})
	if !place(out, 0) {
		return nil, errdefs.InvalidArgumentf("mig_profiles: %s do not fit on it together", strings.Join(names, ", "))
	}
	return out, nil
}

// place places the offers from i on.
func place(all []offer, i int) bool {
	if i == len(all) {
		return true
	}
	for _, at := range all[i].profile.Placements {
		if slices.ContainsFunc(all[:i], func(o offer) bool { return o.at.Overlaps(at) }) {
			continue
		}
		all[i].at = at
		if place(all, i+1) {
			return true
		}
	}
	return false
}

// parts returns all GPU instances of a GPU.
func parts(gpu nvml.Device, known []nvml.Profile) ([]nvml.GPUInstance, error) {
	var out []nvml.GPUInstance
	for _, p := range known {
		some, err := gpu.GPUInstances(p.ID)
		if err != nil {
			return nil, fmt.Errorf("list its GPU instances: %w", err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// divided reports whether MIG instances on demand are offered.
func (inv *inventory) divided() bool {
	return slices.ContainsFunc(inv.devices, func(f found) bool { return f.offer != nil })
}

// describeOffers returns the offers of a GPU whose MIG mode is on.
func describeOffers(gpu nvml.Device, whole found, names []string) ([]found, error) {
	known, err := gpu.Profiles()
	if err != nil {
		return nil, fmt.Errorf("ask GPU %s for its MIG profiles: %w", whole.id, err)
	}
	offers, err := arrange(known, names)
	if err != nil {
		return nil, fmt.Errorf("GPU %s: %w", whole.id, err)
	}
	there, err := parts(gpu, known)
	if err != nil {
		return nil, fmt.Errorf("GPU %s: %w", whole.id, err)
	}
	var out []found
	for _, o := range offers {
		one := whole
		one.id, one.offer = offerID(whole.id, o.profile.Name, o.at.Start), &o
		one.name = whole.name + " MIG " + o.profile.Name
		one.attributes = map[string]device.Attribute{}
		describeGPU(gpu, one.attributes)
		one.attributes["memory"] = device.Int(int64(o.profile.MemoryMB), "MiB")
		one.attributes["mig"] = device.Bool(true)
		for _, p := range there {
			if one.healthy && p.At.Overlaps(o.at) && (p.At != o.at || p.Profile != o.profile.ID) {
				one.healthy = false
				one.why = fmt.Sprintf("its place on the GPU is taken by GPU instance %d, which is not of mig_profiles; remove it (nvidia-smi mig -dci -i ID; nvidia-smi mig -dgi -gi %d)", p.ID, p.ID)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// gpuOf returns the GPU with a UUID.
func gpuOf(lib nvml.Library, uuid string) (nvml.Device, error) {
	gpus, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	for _, gpu := range gpus {
		if id, err := gpu.UUID(); err == nil && id == uuid {
			return gpu, nil
		}
	}
	return nil, errdefs.NotFoundf("GPU %s does not answer or is not on this node", uuid)
}

// makeOffer makes the instance of an offer, unless it exists, and returns it as a device.
func (d *Device) makeOffer(ctx context.Context, one found) (found, error) {
	return ask(ctx, d.nvml, func(lib nvml.Library) (found, error) {
		gpu, err := gpuOf(lib, one.gpu)
		if err != nil {
			return one, err
		}
		all, err := gpu.GPUInstances(one.offer.profile.ID)
		if err != nil {
			return one, err
		}
		i := slices.IndexFunc(all, func(p nvml.GPUInstance) bool { return p.At == one.offer.at })
		var made nvml.GPUInstance
		if i >= 0 {
			made = all[i]
		} else if made, err = gpu.CreateGPUInstance(one.offer.profile.ID, one.offer.at); err != nil {
			return one, fmt.Errorf("make MIG instance %s: %w", one.id, err)
		}
		for range 2 { // the second time it has a compute instance
			instances, err := gpu.Instances()
			if err != nil {
				return one, fmt.Errorf("list the MIG instances of GPU %s: %w", one.gpu, err)
			}
			at := slices.IndexFunc(instances, func(x nvml.Instance) bool { return x.GPU == made.ID })
			if at < 0 {
				if err := gpu.CreateComputeInstance(made.ID, one.offer.profile.Slices); err != nil {
					return one, fmt.Errorf("make the compute instance of MIG instance %s: %w", one.id, err)
				}
				continue
			}
			x := instances[at]
			one.mig, one.index = &migID{x.GPU, x.Compute}, fmt.Sprintf("%s:%d", one.index, x.Index)
			one.id, err = x.UUID()
			return one, err
		}
		return one, errdefs.Unavailablef("MIG instance %s was made and is not listed", one.id)
	})
}

var _ device.Releaser = (*Device)(nil)

// Release implements device.Releaser. It destroys MIG instances that were made on demand.
func (d *Device) Release(ctx context.Context, _ device.Holder, ids []string) error {
	for _, id := range ids {
		uuid, profile, start, ok := parseOffer(id)
		if !ok {
			continue // there is nothing to free
		}
		if _, err := ask(ctx, d.nvml, func(lib nvml.Library) (struct{}, error) {
			return struct{}{}, destroy(lib, uuid, profile, start)
		}); err != nil {
			return fmt.Errorf("remove MIG instance %s: %w", id, err)
		}
	}
	return nil
}

// destroy removes the GPU instance of a profile at a place. It depends on nothing but the
// GPU: the config may have changed since the task began.
func destroy(lib nvml.Library, uuid, profile string, start uint32) error {
	gpu, err := gpuOf(lib, uuid)
	if err != nil {
		return errdefs.New(errdefs.Unavailable, err) // it may be back later
	}
	if on, err := gpu.MIGEnabled(); err == nil && !on {
		return nil // all instances went with the mode
	}
	known, err := gpu.Profiles()
	if err != nil {
		return err
	}
	for _, p := range known {
		if p.Name != profile {
			continue
		}
		all, err := gpu.GPUInstances(p.ID)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.At.Start != start {
				continue
			}
			if err := gpu.DestroyGPUInstance(one.ID); err != nil && !errdefs.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// offersOf returns the ids of the offers by the number of their GPU instance.
func offersOf(gpu nvml.Device, uuid string) map[int]string {
	out := map[int]string{}
	known, err := gpu.Profiles()
	if err != nil {
		return out // the instances of a GPU that fails are left out
	}
	for _, p := range known {
		all, err := gpu.GPUInstances(p.ID)
		if err != nil {
			continue
		}
		for _, one := range all {
			out[one.ID] = offerID(uuid, p.Name, one.At.Start)
		}
	}
	return out
}
