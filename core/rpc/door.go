// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Doorkeeper is a Servers that tells, at no cost, whether somebody is a node. Where
// it stands before the servers, nothing of a call is read before who calls is known.
type Doorkeeper interface {
	// Identify returns an error, as the calls of Servers do, if id is not that of a
	// registered node.
	Identify(id Identity) error
}

// Who calls travels in the head of each call.
const (
	headNode   = "drover-node"
	headSecret = "drover-secret-bin"
)

const (
	// maxStrangers is how many nodes may register for the first time at the same
	// moment, and strangerTimeout how long each may take.
	maxStrangers    = 32
	strangerTimeout = 30 * time.Second
)

// withIdentity has the calls of ctx say who calls.
func withIdentity(ctx context.Context, id Identity) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headNode, id.NodeID, headSecret, id.SecretID)
}

// identityIn is who a call's head says that it is.
func identityIn(head metadata.MD) Identity {
	first := func(key string) string {
		if v := head.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	return Identity{NodeID: first(headNode), SecretID: first(headSecret)}
}

// strangerKey marks the calls of who is no node yet.
type strangerKey struct{}

func isStranger(ctx context.Context) bool { return ctx.Value(strangerKey{}) != nil }

// door lets calls in by their heads.
type door struct {
	keeper    Doorkeeper // nil lets everybody in
	strangers atomic.Int32
}

// enter is called before anything but the head of a call is read. It must not wait.
func (d *door) enter(ctx context.Context, call *tap.Info) (context.Context, error) {
	if d.keeper == nil || call.FullMethodName == path(methodHTTP) { // which guards itself
		return ctx, nil
	}
	err := d.keeper.Identify(identityIn(call.Header))
	switch {
	case err == nil:
		return ctx, nil
	case call.FullMethodName != path(methodRegister):
		return ctx, errdefs.ToGRPC(err)
	}
	if d.strangers.Add(1) > maxStrangers {
		d.strangers.Add(-1)
		return ctx, errdefs.ToGRPC(errdefs.ResourceExhaustedf("%d nodes register for the first time at this moment; try again", maxStrangers))
	}
	context.AfterFunc(ctx, func() { d.strangers.Add(-1) })
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, strangerKey{}, true), strangerTimeout)
	context.AfterFunc(ctx, cancel) // the end of the call frees the timer
	return ctx, nil
}
