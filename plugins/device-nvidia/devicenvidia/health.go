// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"context"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
)

const (
	// xidWait is how long one call waits for an error: the C function cannot be
	// interrupted, so this is also how long an end can take.
	xidWait = 500
	// xidPause is between tries while there is no library or none that reports.
	xidPause = 30 * time.Second
)

// harmless are the Xids that a program of a task causes by itself; the GPU goes
// on. They are those that NVIDIA's own plugin for Kubernetes leaves out.
var harmless = map[uint64]bool{13: true, 31: true, 43: true, 45: true, 68: true, 109: true}

// watchXids notes GPUs whose driver reports that they failed, until ctx ends.
func (d *Device) watchXids(ctx context.Context) {
	for ctx.Err() == nil {
		c, changed := d.now()
		var lib nvml.Library
		var err error
		if c.Enabled {
			lib, err = ask(ctx, d.nvml, func(l nvml.Library) (nvml.Library, error) { return l, nil })
		}
		if lib == nil || err != nil {
			wait(ctx, xidPause, changed)
			continue
		}
		x, ok, err := lib.WaitXid(xidWait)
		switch {
		case err != nil:
			d.log.Debug("errors of GPUs are not reported", "error", err)
			wait(ctx, xidPause, changed)
		case ok && harmless[x.Number]:
			d.log.Info("a task's program failed on a GPU", "gpu", x.UUID, "xid", x.Number)
		case ok:
			d.failed(x)
		}
	}
}

// failed makes a GPU and what it is divided into unhealthy for as long as this
// process lives: after a reset of the GPU, a reload starts another.
func (d *Device) failed(x nvml.Xid) {
	d.log.Error("a GPU failed", "gpu", x.UUID, "xid", x.Number)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.xids[x.UUID] = x.Number
	d.news()
}
