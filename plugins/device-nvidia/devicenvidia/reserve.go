// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// visible is the environment variable that NVIDIA's container runtime reads.
const visible = "NVIDIA_VISIBLE_DEVICES"

// controls are the device nodes that every user of a GPU needs.
var controls = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}

// Reserve implements device.Device. It returns the environment variable for NVIDIA's
// container runtime, CDI names for runtimes that resolve them, and device nodes for
// drivers that give a task only the listed nodes.
func (d *Device) Reserve(ctx context.Context, ids []string) (*device.Reservation, error) {
	c, _ := d.now()
	inv, err := d.known(ctx, c)
	if err != nil {
		return nil, err
	}
	var chosen []found
	var uuids []string
	for _, id := range ids {
		uuid, is := shareOf(id, c.Shares)
		one, ok := inv.find(uuid)
		switch {
		case !ok || !is:
			return nil, errdefs.NotFoundf("there is no GPU %q on this node; it may have been removed, repartitioned, listed in ignored_gpu_ids or divided into other shares", id)
		case !one.healthy:
			return nil, errdefs.FailedPreconditionf("GPU %q cannot be used: %s", id, one.why)
		case slices.Contains(uuids, uuid):
			continue // another share of it
		case one.offer != nil:
			if one, err = d.makeOffer(ctx, one); err != nil {
				return nil, err
			}
			uuid = one.id
		}
		chosen, uuids = append(chosen, one), append(uuids, uuid)
	}
	out := &device.Reservation{Env: map[string]string{visible: strings.Join(uuids, ",")}}
	out.Nodes = d.nodes(chosen)
	if c.CDI {
		out.CDIDevices = d.cdiNames(chosen)
	}
	return out, nil
}

// known returns the result of the last scan, or scans if there was none.
func (d *Device) known(ctx context.Context, c config) (*inventory, error) {
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	if last != nil {
		return last, nil
	}
	if !c.Enabled {
		return &inventory{}, nil
	}
	inv, err := d.scan(ctx, c)
	if err != nil && len(inv.devices) == 0 {
		return nil, err
	}
	return inv, nil
}

func (inv *inventory) find(id string) (found, bool) {
	for _, one := range inv.devices {
		if one.id == id {
			return one, true
		}
	}
	return found{}, false
}

// nodes returns the device nodes of the chosen devices that exist on this machine,
// without duplicates.
func (d *Device) nodes(chosen []found) []device.Node {
	var out []device.Node
	seen := map[string]bool{}
	add := func(path string) {
		if st, err := os.Stat(d.root + path); err != nil || st.IsDir() || seen[path] {
			return
		}
		seen[path] = true
		out = append(out, device.Node{HostPath: path, TaskPath: path, Permissions: "rw"})
	}
	for _, one := range chosen {
		if one.minor >= 0 {
			add("/dev/nvidia" + strconv.Itoa(one.minor))
		}
		if one.mig != nil {
			for _, path := range d.capabilities(one) {
				add(path)
			}
		}
	}
	if len(out) > 0 {
		for _, path := range controls {
			add(path)
		}
	}
	return out
}

// capabilities returns the device nodes that grant access to a MIG instance. Their
// minor numbers are in /proc.
func (d *Device) capabilities(one found) []string {
	dir := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", one.minor, one.mig.gpu)
	var out []string
	for _, file := range []string{"access", fmt.Sprintf("ci%d/access", one.mig.compute)} {
		if minor, ok := deviceFileMinor(filepath.Join(d.root+dir, file)); ok {
			out = append(out, "/dev/nvidia-caps/nvidia-cap"+minor)
		}
	}
	return out
}

// deviceFileMinor parses the line "DeviceFileMinor: 12".
func deviceFileMinor(path string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "DeviceFileMinor:"); ok {
			_, err := strconv.ParseUint(strings.TrimSpace(v), 10, 32)
			return strings.TrimSpace(v), err == nil
		}
	}
	return "", false
}
