// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateTask implements driver.Updater. The daemon keeps the new limits with the container.
func (d *Driver) UpdateTask(ctx context.Context, id string, r driver.Resources) error {
	t, err := d.of(id)
	if err != nil {
		return err
	}
	if t.result() == nil {
		err = t.settle(ctx)
	}
	if err == nil && t.result() != nil {
		return errdefs.FailedPreconditionf("change the resources of task %q: it has ended", id)
	}
	if err == nil {
		err = t.update(ctx, r)
	}
	if err != nil {
		return wrapTask(id, err)
	}
	return nil
}

func (t *task) update(ctx context.Context, r driver.Resources) error {
	c, err := t.d.inspect(ctx, t.state.Container)
	if err != nil {
		return err
	}
	facts, err := t.d.learn(ctx)
	if err != nil {
		return err
	}
	want, err := updated(c, r, facts)
	if err != nil {
		return err
	}
	used, err := t.memoryInUse(ctx)
	if err != nil {
		return err
	}
	// With cgroup v2 the kernel would kill the task.
	if want.Memory > 0 && used > want.Memory {
		return errdefs.FailedPreconditionf("the container uses %d MiB of memory, which is more than the %d MiB that it would get", (used+mib-1)/mib, want.Memory/mib)
	}
	limited, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	_, err = t.d.api.Load().ContainerUpdate(limited, t.state.Container, client.ContainerUpdateOptions{Resources: want})
	return t.d.failed(ctx, err, "change the resources of container %s", short(t.state.Container))
}

// updated returns the limits of a container for a task with the resources r. All other
// limits are read from the container.
func updated(c container.InspectResponse, r driver.Resources, host facts) (*container.Resources, error) {
	in := specInput{task: &driver.TaskConfig{Resources: r}, host: host}
	own, known := c.Config.Labels[labelOwnCores]
	if !known { // made by an older version of the driver
		own = c.HostConfig.CpusetCpus
	}
	if own != "" || len(r.Cores) > 0 {
		in.task.Resources.SharedCores = nil
	}
	in.task.Resources.Cores = nil // they stay as they are
	if label, ok := c.Config.Labels[labelHardLimit]; ok {
		hard, err := strconv.ParseInt(label, 10, 64)
		if err != nil {
			return nil, errdefs.FailedPreconditionf("the label %s of the container is %q, which is not a number; restart the task", labelHardLimit, label)
		}
		in.config.MemoryHardLimit = hard
	} else if r.MemoryMaxMB == 0 && c.HostConfig.MemoryReservation > 0 {
		return nil, errdefs.FailedPreconditionf("an older version of the driver made the container and did not record its memory_hard_limit; restart the task")
	}
	if c.HostConfig.CPUQuota > 0 {
		in.config.CPUHardLimit, in.config.CPUCFSPeriod = true, c.HostConfig.CPUPeriod
	}
	var out container.HostConfig
	if err := memory(in, &out); err != nil {
		return nil, err
	}
	if err := cpu(in, &out); err != nil {
		return nil, err
	}
	if out.MemoryReservation == 0 && c.HostConfig.MemoryReservation > 0 {
		out.MemoryReservation = out.Memory // the daemon does not change a limit that is 0 in a request
	}
	return &out.Resources, nil
}

// memoryInUse returns the bytes of memory that the kernel cannot take from the container.
func (t *task) memoryInUse(ctx context.Context) (int64, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := t.d.open(limited, "containers/"+t.state.Container+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}})
	if err != nil {
		return 0, t.d.failed(ctx, err, "measure container %s", short(t.state.Container))
	}
	defer r.Close()
	var now measured
	if err := json.NewDecoder(r).Decode(&now); err != nil {
		return 0, t.d.failed(ctx, fmt.Errorf("decode the answer: %w", err), "measure container %s", short(t.state.Container))
	}
	m := now.Memory
	return int64(m.Usage - min(m.Usage, m.Detail.InactiveFile+m.Detail.ActiveFile)), nil
}
