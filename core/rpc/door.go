// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Doorkeeper is a Servers that can check an identity cheaply. If Servers implements
// it, nothing of a call is read before its caller is known.
type Doorkeeper interface {
	// Identify returns an error, like the calls of Servers, if id is not the identity
	// of a registered node.
	Identify(id Identity) error
}

// The caller's identity is sent in the metadata of each call.
const (
	headNode   = "drover-node"
	headSecret = "drover-secret-bin"
)

const (
	// maxStrangers is the number of nodes that may register for the first time at the
	// same moment, and strangerTimeout is the time limit for each.
	maxStrangers    = 32
	strangerTimeout = 30 * time.Second
)

// withIdentity adds the caller's identity to the calls of ctx.
func withIdentity(ctx context.Context, id Identity) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headNode, id.NodeID, headSecret, id.SecretID)
}

// identityIn returns the identity in the metadata of a call.
func identityIn(head metadata.MD) Identity {
	first := func(key string) string {
		if v := head.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	return Identity{NodeID: first(headNode), SecretID: first(headSecret)}
}

// strangerKey marks the calls of nodes that are not registered yet.
type strangerKey struct{}

func isStranger(ctx context.Context) bool { return ctx.Value(strangerKey{}) != nil }

// door admits calls by their metadata.
type door struct {
	keeper    Doorkeeper // nil admits all calls
	strangers atomic.Int32
}

// enter is called before anything but the metadata of a call is read. It must not
// block.
func (d *door) enter(ctx context.Context, call *tap.Info) (context.Context, error) {
	if d.keeper == nil || call.FullMethodName == path(methodHTTP) || strings.HasPrefix(call.FullMethodName, peerPath("")) || !ours(call.FullMethodName) { // they check their callers themselves, or read nothing
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
	context.AfterFunc(ctx, cancel) // releases the timer at the end of the call
	return ctx, nil
}
