// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"

	"google.golang.org/grpc"
)

const methodSchemas = "PutDriverSchemas"

type schemasMessage struct {
	ID     Identity
	Bodies [][]byte
}

type schemasReply struct{}

func schemasMethod() grpc.MethodDesc {
	return unary(methodSchemas, func(ctx context.Context, s Servers, m *schemasMessage) (*schemasReply, error) {
		return &schemasReply{}, s.PutDriverSchemas(ctx, m.ID, m.Bodies)
	})
}

// PutDriverSchemas implements Servers.
func (c *Client) PutDriverSchemas(ctx context.Context, id Identity, bodies [][]byte) error {
	return c.ask(ctx, id, methodSchemas, &schemasMessage{ID: id, Bodies: bodies}, &schemasReply{})
}
