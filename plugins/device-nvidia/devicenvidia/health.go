// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"context"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
)

const (
	// xidWait is the time in milliseconds for which one call waits for an error. The C
	// function cannot be interrupted, so stopping may take as long.
	xidWait = 500
	// xidPause is the time between attempts while there is no library, or none that
	// reports errors.
	xidPause = 30 * time.Second
)

// harmless lists the Xids that a task's program causes itself and after which the
// GPU still works. NVIDIA's device plugin for Kubernetes ignores the same ones.
var harmless = map[uint64]bool{13: true, 31: true, 43: true, 45: true, 68: true, 109: true}

// watchXids marks GPUs unhealthy whose driver reports a critical error, until ctx
// ends.
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

// failed marks a GPU and its MIG instances unhealthy until this process ends. After
// resetting the GPU, an operator reloads the plugin.
func (d *Device) failed(x nvml.Xid) {
	d.log.Error("a GPU failed", "gpu", x.UUID, "xid", x.Number)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.xids[x.UUID] = x.Number
	d.news()
}
