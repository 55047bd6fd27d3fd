// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ours reports whether this server knows the version of the protocol of a call's method,
// "/SERVICE/METHOD".
func ours(method string) bool {
	return strings.HasPrefix(method, "/"+serviceName+"/") || strings.HasPrefix(method, "/"+peerService+"/")
}

// unknown answers calls that this server does not know: calls of another version of the
// protocol, or calls that a later release has added. Newer callers then fall back to older
// calls.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	if ours(method) {
		return errdefs.ToGRPC(errdefs.Unimplementedf("this server does not know the call %.80q; upgrade the servers before the nodes", method))
	}
	from := "unknown"
	if p, found := peer.FromContext(stream.Context()); found {
		from = p.Addr.String()
	}
	s.complain.say(func(more int) {
		s.logger.Warn("a call of an unknown version of the protocol was refused; upgrade the servers before the nodes, or stop the caller", "from", from, "call", method, "speaks", serviceName, "more", more)
	})
	return errdefs.ToGRPC(errdefs.Unimplementedf("this server speaks %s and not what %.80q is of; upgrade the servers before the nodes, or use the release of the servers", serviceName, method))
}
