// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// PluginAnswer lists the plugins that the registry assigns to a node. A plugin that is
// not in it is not for the node.
type PluginAnswer struct {
	Index uint64
	// Confirmed means that a leader has confirmed the answer: only then may a node
	// remove plugins that are missing from it.
	Confirmed bool
	Plugins   []WantedPlugin
}

// WantedPlugin is one assigned plugin. Without a release the node keeps what it has.
type WantedPlugin struct {
	Name    string
	Release *model.PluginRelease
}

const (
	methodPlugins    = "Plugins"
	methodPluginFile = "PluginFile"
)

type pluginFileMessage struct {
	ID     Identity
	Digest string
}

type filePiece struct{ Data []byte }

func pluginsMethod() grpc.MethodDesc {
	return unary(methodPlugins, func(ctx context.Context, s Servers, id *Identity) (*PluginAnswer, error) {
		answer, err := s.Plugins(ctx, *id)
		return &answer, err
	})
}

func pluginFileStream() grpc.StreamDesc {
	return bothWays(methodPluginFile, func(s *Server, stream grpc.ServerStream) error {
		var m pluginFileMessage
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		return s.servers.PluginFile(stream.Context(), m.ID, m.Digest, func(data []byte) error {
			return stream.SendMsg(&filePiece{Data: data})
		})
	})
}

// Plugins implements Servers.
func (c *Client) Plugins(ctx context.Context, id Identity) (answer PluginAnswer, err error) {
	err = c.ask(ctx, id, methodPlugins, &id, &answer)
	return answer, err
}

// PluginFile implements Servers.
func (c *Client) PluginFile(ctx context.Context, id Identity, digest string, take func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // releases the stream if take fails
	stream, err := c.stream(withIdentity(ctx, id), methodPluginFile)
	if err != nil {
		return brokenFile(err)
	}
	if err := stream.SendMsg(&pluginFileMessage{ID: id, Digest: digest}); err != nil {
		return brokenFile(recvError(stream, err))
	}
	if err := stream.CloseSend(); err != nil {
		return brokenFile(err)
	}
	for {
		var piece filePiece
		if err := stream.RecvMsg(&piece); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return brokenFile(err)
		}
		if err := take(piece.Data); err != nil {
			return err
		}
	}
}

func brokenFile(err error) error {
	return fmt.Errorf("fetch a plugin's file from the servers: %w", errdefs.FromGRPC(err))
}
