// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/model"
)

// diskAttribute says how a node keeps allocs to the size of their disks: by limits of the file
// system, or by measuring only.
const diskAttribute = "storage.ephemeral_disk"

// addDisks writes that into the node.
func (a *Agent) addDisks(n *model.Node) {
	n.Attributes[diskAttribute] = "measured"
	if a.limits == nil {
		n.Attributes[diskAttribute] = "limited"
	}
}

// openDisks looks whether the file system of the allocs can limit them.
func (a *Agent) openDisks() {
	if a.limits = quota.Supported(a.cfg.AllocDir); a.limits != nil {
		a.cfg.Logger.Debug("the disks of allocs are measured and not limited", "reason", a.limits)
	}
}

// watchDisks looks at the disks of the allocs until ctx ends.
func (a *Agent) watchDisks(ctx context.Context) {
	quota.NewWatch(quota.Config{List: func() (out []quota.Watched) {
		for _, r := range a.allocs.Runners() {
			out = append(out, r)
		}
		return out
	}}).Run(ctx)
}

// disksInUse are what allocs took when they were last looked at.
func (a *Agent) disksInUse() (out []stats.Disk) {
	for _, r := range a.allocs.Runners() {
		if used, size, ok := r.DiskUsage(); ok {
			out = append(out, stats.Disk{Alloc: r.Alloc(), Used: used, Size: size})
		}
	}
	return out
}
