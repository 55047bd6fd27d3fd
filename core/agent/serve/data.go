// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"bufio"
	"context"

	"github.com/drover-project/drover/core/rpc"
)

// dataPiece is the size of the pieces in which an alloc's data is sent.
const dataPiece = 256 << 10

// sendData sends the data of an ended alloc to the node of the alloc that replaces it.
func (s *Server) sendData(ctx context.Context, q rpc.DataRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(pieces{ctx, send}, dataPiece)
	if err := r.SendData(out, q.Tasks); err != nil {
		return err
	}
	return out.Flush()
}

// pieces sends what is written to it.
type pieces struct {
	ctx  context.Context
	send func([]byte) error
}

// Write sends a copy, because the receiver keeps it.
func (p pieces) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.send(append([]byte(nil), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
