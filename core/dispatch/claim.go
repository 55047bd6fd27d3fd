// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// holder is the agent process that acts as a node.
type holder struct {
	instance string
	heard    time.Time
}

// claim assigns the node to the calling agent process, or refuses it while another
// process with the same identity was heard of within a lease. Otherwise two agents on
// copies of one data directory would replace each other again and again, and each
// would answer for the other's allocs. A process gives up the node when its session
// ends.
func (d *Dispatcher) claim(id rpc.Identity, now time.Time) error {
	if id.Instance == "" {
		return nil
	}
	lease := d.lease()
	d.mu.Lock()
	defer d.mu.Unlock()
	h, taken := d.holders[id.NodeID]
	if taken && h.instance != id.Instance && now.Before(h.heard.Add(lease)) {
		return errdefs.AlreadyExistsf("another agent acts as node %q, it was heard of %s ago: two machines have copies of one data directory; "+
			"stop one of them, and remove the folder \"client\" of its data directory so that it gets an id of its own",
			id.NodeID, now.Sub(h.heard).Round(time.Millisecond))
	}
	d.holders[id.NodeID] = holder{instance: id.Instance, heard: now}
	return nil
}

// vacate makes the node available to another process, because the session of this one
// has ended.
func (d *Dispatcher) vacate(id rpc.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders[id.NodeID].instance == id.Instance {
		delete(d.holders, id.NodeID)
	}
}
