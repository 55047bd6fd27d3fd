// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/errdefs"
)

// MethodAllocData makes a node send the data of an ended alloc to the node of the alloc
// that replaces it: DataRequest; chunks of bytes, of core/agent/allocdir.
const MethodAllocData = "alloc.data"

// DataRequest names an alloc and the tasks whose local folders are wanted besides
// alloc/data.
type DataRequest struct {
	AllocID string
	Tasks   []string
}

// DataPiece is a part of the answer to AllocData. While the node waits, pieces without Data
// name the reason every few seconds.
type DataPiece struct {
	Waits string
	Data  []byte
}

const methodAllocData = "AllocData"

type allocDataMessage struct {
	ID      Identity
	AllocID string
}

func allocDataStream() grpc.StreamDesc {
	return bothWays(methodAllocData, func(s *Server, stream grpc.ServerStream) error {
		var m allocDataMessage
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		return s.servers.AllocData(stream.Context(), m.ID, m.AllocID, func(p *DataPiece) error { return stream.SendMsg(p) })
	})
}

// AllocData implements Servers.
func (c *Client) AllocData(ctx context.Context, id Identity, allocID string, take func(*DataPiece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // releases the stream if take fails
	stream, err := c.stream(withIdentity(ctx, id), methodAllocData)
	if err != nil {
		return brokenData(err)
	}
	if err := stream.SendMsg(&allocDataMessage{ID: id, AllocID: allocID}); err != nil {
		return brokenData(recvError(stream, err))
	}
	if err := stream.CloseSend(); err != nil {
		return brokenData(err)
	}
	for {
		var piece DataPiece
		if err := stream.RecvMsg(&piece); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return brokenData(err)
		}
		if err := take(&piece); err != nil {
			return err
		}
	}
}

func brokenData(err error) error {
	return fmt.Errorf("fetch the data of the alloc before: %w", errdefs.FromGRPC(err))
}
