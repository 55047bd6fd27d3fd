// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// pluginTimeout limits a change of a plugin, which may include fetching its file.
const pluginTimeout = 30 * time.Minute

// uploadChunk is the size of the pieces in which a plugin's file is sent to a node.
const uploadChunk = 256 << 10

// NodePlugins lists the plugins of a node; "" is this agent's own.
func (c Calls) NodePlugins(ctx context.Context, nodeID string) ([]*model.AgentPlugin, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return nodePlugin[[]*model.AgentPlugin](ctx, c, nodeID, rpc.MethodPlugins, rpc.PluginRequest{}, nil)
}

// NodePlugin returns one plugin of a node.
func (c Calls) NodePlugin(ctx context.Context, nodeID, name string) (*model.AgentPlugin, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return nodePlugin[*model.AgentPlugin](ctx, c, nodeID, rpc.MethodPlugin, rpc.PluginRequest{Name: name}, nil)
}

// ChangeNodePlugin changes a plugin of a node. A body is the file of the release. The
// answer to a removal is nil.
func (c Calls) ChangeNodePlugin(ctx context.Context, req *api.PluginChange, body io.Reader) (*model.AgentPlugin, error) {
	q := rpc.PluginRequest{Name: req.Name, Action: req.Action, Force: req.Force, Release: req.Release, Streamed: body != nil, Size: req.Size, Detach: req.Detach}
	method := rpc.MethodChangePlugin
	if body != nil {
		method = rpc.MethodInstallPlugin
	}
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	return nodePlugin[*model.AgentPlugin](ctx, c, req.NodeID, method, q, body)
}

// nodePlugin makes a call about plugins to a node and returns its answer.
func nodePlugin[T any](ctx context.Context, c Calls, nodeID, method string, q rpc.PluginRequest, body io.Reader) (answer T, err error) {
	n, err := c.ByID(nodeID)
	if err != nil {
		return answer, err
	}
	call, err := rpc.NewCall(method, q)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var in chan []byte
	if body != nil {
		in = make(chan []byte)
		go func() {
			if err := chunks(ctx, body, in); err != nil {
				cancel(err) // in stays open: the file is not complete
			}
		}()
	}
	err = n.Call(ctx, call, in, func(b []byte) error {
		if err := json.Unmarshal(b, &answer); err != nil {
			return fmt.Errorf("read the node's answer: %w", err)
		}
		return nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return answer, cause
	}
	return answer, err
}

// chunks sends body in pieces and closes out at its end.
func chunks(ctx context.Context, body io.Reader, out chan<- []byte) error {
	for {
		buf := make([]byte, uploadChunk)
		n, err := fill(body, buf)
		if n > 0 {
			select {
			case out <- buf[:n]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			close(out)
			return nil
		case err != nil:
			return fmt.Errorf("read the plugin's file from the request: %w", err)
		}
	}
}

// fill reads until buf is full or body ends. Unlike io.ReadFull it tells the end of a body,
// io.EOF, from a request that broke off, whose body ends with io.ErrUnexpectedEOF.
func fill(body io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = body.Read(buf[n:])
		n += more
	}
	return n, err
}
