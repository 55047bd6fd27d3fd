// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"github.com/hashicorp/serf/serf"

	"github.com/drover-project/drover/sdk/errdefs"
)

// NotifyMerge is called by the gossip before servers are taken into the list. An error
// refuses them, and fails the join on both sides.
func (m *Membership) NotifyMerge(others []*serf.Member) error {
	ours := ""
	if id := m.cluster.Load(); id != nil {
		ours = *id
	}
	for _, o := range others {
		if o.Name == m.cfg.fullName() {
			continue
		}
		if err := m.mayMeet(o, ours); err != nil {
			return err
		}
	}
	return nil
}

func (m *Membership) mayMeet(o *serf.Member, ours string) error {
	switch theirs := o.Tags[tagCluster]; {
	case o.Tags[tagRole] != roleServer:
		return errdefs.FailedPreconditionf("%s at %s is not a server of drover (its role is %q)", o.Name, o.Addr, o.Tags[tagRole])
	case o.Tags[tagRegion] != m.cfg.Region:
		return errdefs.FailedPreconditionf("%s at %s is a server of the region %q, and this one of %q: regions are not joined in this release; set the same `region`, or remove the address from server_join", o.Name, o.Addr, o.Tags[tagRegion], m.cfg.Region)
	case ours != "" && theirs != "" && ours != theirs:
		return errdefs.FailedPreconditionf("%s at %s is a server of another cluster (%s) of the same region, and this one of %s: remove its address from server_join; to move a server, stop it and start it with an empty data directory", o.Name, o.Addr, theirs, ours)
	}
	return nil
}
