// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// stored is the registration of the node that the servers have. With it the node sends only
// differences, to whichever server it is connected. Only one registration is under way at a
// time.
type stored struct {
	node    *model.Node // nil if it is unknown what the servers have
	version uint64      // see rpc.Lease
	number  uint64      // counts the registrations of this process
}

// send registers the node: it sends the difference, or the whole node if the servers do not
// have the registration before. After an error it is unknown what they have, because the
// answer may have been lost.
func (s *stored) send(ctx context.Context, servers rpc.Servers, node *model.Node) (rpc.Lease, error) {
	before, version := s.node, s.version
	s.node = nil
	s.number++
	node.Number = s.number
	if before != nil {
		change := model.ChangeOf(before, node)
		change.Base = version
		lease, err := servers.Change(ctx, change)
		if !errdefs.IsAborted(err) && !errdefs.IsUnimplemented(err) {
			return s.answered(node, lease, err)
		}
	}
	lease, err := servers.Register(ctx, node)
	return s.answered(node, lease, err)
}

func (s *stored) answered(node *model.Node, lease rpc.Lease, err error) (rpc.Lease, error) {
	if err == nil && lease.Version != 0 {
		s.node, s.version = node, lease.Version
	}
	return lease, err
}
