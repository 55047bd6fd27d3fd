// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (r *Runner) needsVolumes() bool {
	for _, v := range r.group.Volumes {
		if v.IsHost() {
			return true
		}
	}
	return false
}

// checkVolumes looks whether the host volumes of the group are there, before any task
// starts. Drivers mount them into the tasks.
func (r *Runner) checkVolumes() error {
	r.mu.Lock()
	n, a, tg := r.cfg.Node(), r.alloc, r.group
	r.mu.Unlock()
	for _, v := range tg.Volumes {
		if !v.IsHost() {
			continue
		}
		host, err := hostVolume(n, a, v)
		if err != nil {
			return err
		}
		if _, err := os.Stat(host.Path); err != nil {
			return errdefs.Unavailablef("host volume %q cannot be used: %w; make its directory on node %s", host.Name, err, n.ID)
		}
	}
	return nil
}

// hostVolume returns the volume of the node that an alloc gets for a request.
func hostVolume(n *model.Node, a *model.Allocation, v *model.VolumeRequest) (*model.HostVolumeConfig, error) {
	name := v.VolumeName(a.Index())
	if n != nil && n.HostVolumes[name] != nil {
		return n.HostVolumes[name], nil
	}
	// After a restart of the machine its plugin may be making it.
	return nil, errdefs.Unavailablef("host volume %q is not on this node at the moment", name)
}

// mountsOf finds the host volumes that a task mounts.
func mountsOf(n *model.Node, a *model.Allocation, tg *model.TaskGroup, t *model.Task, info driver.Info) ([]driver.Mount, error) {
	var out []driver.Mount
	for _, m := range t.VolumeMounts {
		v := tg.Volumes[m.Volume]
		if v.IsCSI() {
			continue // see addStorage
		}
		if v == nil || !v.IsHost() {
			return nil, errdefs.InvalidArgumentf("volume %q of task %q cannot be mounted by this node; volumes of the types host and csi can", m.Volume, t.Name)
		}
		if !info.Capabilities.MountConfigs {
			return nil, errdefs.InvalidArgumentf("driver %q cannot mount volumes; use another driver for task %q", info.Name, t.Name)
		}
		host, err := hostVolume(n, a, v)
		if err != nil {
			return nil, err
		}
		out = append(out, driver.Mount{
			HostPath: host.Path, TaskPath: m.Destination, ReadOnly: m.ReadOnly || !v.Writes() || host.ReadOnly,
			PropagationMode: m.PropagationMode, SELinuxLabel: m.SELinuxLabel,
		})
	}
	return out, nil
}

// destination returns where in the task a volume is mounted, with all variables replaced.
func (p *preparation) destination(in string) (string, error) {
	out := p.env.Replace(in)
	if slices.Contains(strings.Split(filepath.ToSlash(out), "/"), "..") || filepath.Join("/", out) == "/" {
		return "", errdefs.InvalidArgumentf("the destination %q of a volume_mount of task %q is %q, which is not a folder within the task; use one such as /data", in, p.name, out)
	}
	return out, nil
}
