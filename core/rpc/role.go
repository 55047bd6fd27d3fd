// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/drover-project/drover/sdk/errdefs"
)

// machine is a connection whose TLS handshake is done.
type machine struct {
	net.Conn
	state tls.ConnectionState
	role  error // why the other side is not a server; nil if it is one, or if nobody checks
}

// machineInfo is what is known about the other side of a gRPC connection.
type machineInfo struct {
	credentials.TLSInfo
	role error
}

// fromServer returns an error if the call of ctx comes from a machine that has no
// certificate of a server. Without TLS, and without its verify_server_hostname, every
// machine of the cluster may act as a server.
func fromServer(ctx context.Context) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return errdefs.PermissionDeniedf("this call comes from no machine")
	}
	if info, ok := p.AuthInfo.(machineInfo); ok {
		return info.role
	}
	return nil
}

// shaken are the gRPC credentials of connections whose handshake a Port has already
// completed.
type shaken struct {
	credentials.TransportCredentials
}

func newShaken() credentials.TransportCredentials { return shaken{insecure.NewCredentials()} }

// ServerHandshake returns the result of the Port's handshake.
func (s shaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	m, ok := conn.(*machine)
	if !ok {
		return s.TransportCredentials.ServerHandshake(conn)
	}
	if m.state.NegotiatedProtocol != grpcProtocol {
		return nil, nil, errdefs.InvalidArgumentf("it negotiates the protocol %q, not %s", m.state.NegotiatedProtocol, grpcProtocol)
	}
	return conn, machineInfo{credentials.TLSInfo{
		State: m.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, m.role}, nil
}
