// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"

	"github.com/drover-project/drover/core/agent/hostvolumes"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// HostVolumes are the dynamic host volumes of the node.
type HostVolumes interface {
	Create(ctx context.Context, v *model.HostVolume) (hostvolumes.Made, error)
	Register(ctx context.Context, v *model.HostVolume) (hostvolumes.Made, error)
	Delete(ctx context.Context, id string) error
}

func answerVolume(ctx context.Context, v *model.HostVolume, do func(context.Context, *model.HostVolume) (hostvolumes.Made, error), send func([]byte) error) error {
	made, err := do(ctx, v)
	if err != nil {
		return err
	}
	return sendJSON(send, rpc.HostVolume(made))
}

// Storage are the storage plugins of the node.
type Storage interface {
	// Call carries out a call of servers to a plugin. The answer is nil if the method has none.
	Call(ctx context.Context, method string, q rpc.StorageCall) (any, error)
}

func (s *Server) callStorage(ctx context.Context, method string, q rpc.StorageCall, send func([]byte) error) error {
	out, err := s.cfg.Storage.Call(ctx, method, q)
	if err != nil || out == nil {
		return err
	}
	return sendJSON(send, out)
}
