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
	"github.com/drover-project/drover/sdk/errdefs"
)

// callTimeout limits a call to a node that has a single answer.
const callTimeout = 30 * time.Second

// Calls implements the public API's requests to nodes by calling the node. A server
// reaches all nodes over their sessions; an agent that is only a node reaches itself.
type Calls struct {
	// OfAlloc returns the node of an alloc.
	OfAlloc func(allocID string) (rpc.Node, error)
	// ByID returns a node by its id; "" means this agent's own node.
	ByID func(nodeID string) (rpc.Node, error)
}

var _ api.Client = Calls{}

// nodeOf returns the node that an alloc is on.
func (e *Endpoint) nodeOf(allocID string) (rpc.Node, error) {
	a := e.Store.View().AllocByID(allocID)
	if a == nil {
		return nil, errdefs.NotFoundf("Unknown allocation %q", allocID)
	}
	return e.Nodes(a.NodeID)
}

// anyNode returns a node by its id; "" is this agent's own.
func (e *Endpoint) anyNode(nodeID string) (rpc.Node, error) {
	if nodeID == "" {
		nodeID = e.LocalNode()
	}
	if nodeID == "" {
		return nil, errdefs.InvalidArgumentf("this agent is not a node: name one (node_id; on the command line -node or -node-id), or ask the agent of a node")
	}
	if e.Store.View().NodeByID(nodeID) == nil {
		return nil, errdefs.NotFoundf("Unknown node %q", nodeID)
	}
	return e.Nodes(nodeID)
}

// ask makes a call about an alloc that has a single answer.
func ask[T any](ctx context.Context, c Calls, allocID, method string, request any) (T, error) {
	n, err := c.OfAlloc(allocID)
	if err != nil {
		var none T
		return none, err
	}
	return answerOf[T](ctx, n, fmt.Sprintf("the node of allocation %q", allocID), method, request)
}

// answerOf makes a call that has a single answer. whose names the node in the error of one that
// hangs.
func answerOf[T any](ctx context.Context, n rpc.Node, whose, method string, request any) (T, error) {
	late := errdefs.DeadlineExceededf("%s has not answered within %s: its agent is suspended or overloaded, or its machine has just gone; try again later", whose, callTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, late)
	defer cancel()
	answer, err := rpc.Ask[T](ctx, n, method, request)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		err = late
	}
	return answer, err
}

// NodeStats returns the host stats of a node; "" is this agent's own.
func (c Calls) NodeStats(ctx context.Context, nodeID string) (any, error) {
	return c.askNode(ctx, nodeID, rpc.MethodHostStats, nil)
}

// NodeGC makes a node remove the directories of ended allocs.
func (c Calls) NodeGC(ctx context.Context, nodeID string) error {
	_, err := c.askNode(ctx, nodeID, rpc.MethodCollect, nil)
	return err
}

// NodeMeta returns the metadata of a node; "" is this agent's own.
func (c Calls) NodeMeta(ctx context.Context, nodeID string) (any, error) {
	return c.askNode(ctx, nodeID, rpc.MethodNodeMeta, nil)
}

// ApplyNodeMeta changes the metadata of a node; a nil value removes a key.
func (c Calls) ApplyNodeMeta(ctx context.Context, nodeID string, meta map[string]*string) (any, error) {
	return c.askNode(ctx, nodeID, rpc.MethodSetNodeMeta, meta)
}

// NodeCluster returns the cluster of a node. With trust, the node accepts its current
// servers.
func (c Calls) NodeCluster(ctx context.Context, nodeID string, trust bool) (any, error) {
	if trust {
		return c.trust(ctx, nodeID)
	}
	return c.askNode(ctx, nodeID, rpc.MethodNodeCluster, nil)
}

// askAgain is the pause between two questions to a node that is about to be back.
const askAgain = 100 * time.Millisecond

// trust makes a node accept its servers. The node begins a new session for that, which may
// end the call before its answer, so the answer is asked for in the new session.
func (c Calls) trust(ctx context.Context, nodeID string) (any, error) {
	n, err := c.ByID(nodeID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := rpc.Ask[json.RawMessage](ctx, n, rpc.MethodTrust, nil)
	if !errdefs.IsUnavailable(err) {
		return answer, err
	}
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		answer, again := c.askNode(ctx, nodeID, rpc.MethodNodeCluster, nil)
		var now rpc.NodeCluster
		switch {
		case again != nil:
		case json.Unmarshal(answer, &now) != nil || now.Standing != rpc.ClusterBelieved:
			return nil, err
		default:
			return answer, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// NodeIdentity returns the claims of a node's identity. With renew, the node gets a new
// identity instead, and there is no answer.
func (c Calls) NodeIdentity(ctx context.Context, nodeID string, renew bool) (any, error) {
	if renew {
		_, err := c.askNode(ctx, nodeID, rpc.MethodRenewIdentity, nil)
		return struct{}{}, err
	}
	return c.askNode(ctx, nodeID, rpc.MethodNodeIdentity, nil)
}

func (c Calls) askNode(ctx context.Context, nodeID, method string, request any) (json.RawMessage, error) {
	n, err := c.ByID(nodeID)
	if err != nil {
		return nil, err
	}
	whose := "this agent's node"
	if nodeID != "" {
		whose = fmt.Sprintf("node %q", nodeID)
	}
	return answerOf[json.RawMessage](ctx, n, whose, method, request)
}

// AllocGC makes an alloc's node remove its directory.
func (c Calls) AllocGC(ctx context.Context, allocID string) error {
	_, err := ask[json.RawMessage](ctx, c, allocID, rpc.MethodAllocGC, rpc.AllocRequest{AllocID: allocID})
	return err
}

// AllocStats returns the resource usage of an alloc's tasks.
func (c Calls) AllocStats(ctx context.Context, allocID, task string) (any, error) {
	return ask[json.RawMessage](ctx, c, allocID, rpc.MethodAllocStats, rpc.AllocRequest{AllocID: allocID, Task: task})
}

// AllocChecks returns the state of an alloc's service checks.
func (c Calls) AllocChecks(ctx context.Context, allocID string) (any, error) {
	return ask[json.RawMessage](ctx, c, allocID, rpc.MethodChecks, rpc.AllocRequest{AllocID: allocID})
}

// AllocTasks returns the current activity of an alloc's tasks.
func (c Calls) AllocTasks(ctx context.Context, allocID string) (any, error) {
	return ask[json.RawMessage](ctx, c, allocID, rpc.MethodAllocTasks, rpc.AllocRequest{AllocID: allocID})
}

// RestartAlloc restarts one task, the running ones, or all tasks of an alloc.
func (c Calls) RestartAlloc(ctx context.Context, allocID, task string, allTasks bool) error {
	_, err := ask[json.RawMessage](ctx, c, allocID, rpc.MethodRestart, rpc.RestartRequest{AllocID: allocID, Task: task, AllTasks: allTasks})
	return err
}

// SignalAlloc sends a signal to one task or to all of an alloc.
func (c Calls) SignalAlloc(ctx context.Context, allocID, task, signal string) error {
	_, err := ask[json.RawMessage](ctx, c, allocID, rpc.MethodSignal, rpc.SignalRequest{AllocID: allocID, Task: task, Signal: signal})
	return err
}

// PauseAlloc pauses one running task or all of an alloc, or resumes them.
func (c Calls) PauseAlloc(ctx context.Context, allocID, task string, pause bool) error {
	_, err := ask[json.RawMessage](ctx, c, allocID, rpc.MethodPause, rpc.PauseRequest{AllocID: allocID, Task: task, Resume: !pause})
	return err
}

// DirectAlloc tells one task with a schedule, or all of an alloc, to pause, run or follow it;
// without a state it only asks. It returns what they do, by task.
func (c Calls) DirectAlloc(ctx context.Context, allocID, task, state string) (map[string]model.TaskScheduleNow, error) {
	return ask[map[string]model.TaskScheduleNow](ctx, c, allocID, rpc.MethodDirect, rpc.ScheduleRequest{AllocID: allocID, Task: task, State: state})
}

// ListFiles lists a folder of an alloc.
func (c Calls) ListFiles(ctx context.Context, allocID, path string) ([]*model.FileInfo, error) {
	return ask[[]*model.FileInfo](ctx, c, allocID, rpc.MethodListFiles, rpc.FileRequest{AllocID: allocID, Path: path})
}

// StatFile describes a file of an alloc.
func (c Calls) StatFile(ctx context.Context, allocID, path string) (*model.FileInfo, error) {
	return ask[*model.FileInfo](ctx, c, allocID, rpc.MethodStatFile, rpc.FileRequest{AllocID: allocID, Path: path})
}

// ReadFile streams a file of an alloc. It returns an error that occurs before the
// first byte, so that the API can still answer with a status.
func (c Calls) ReadFile(ctx context.Context, allocID, path string, offset, limit int64) (io.ReadCloser, error) {
	n, err := c.OfAlloc(allocID)
	if err != nil {
		return nil, err
	}
	call, err := rpc.NewCall(rpc.MethodReadFile, rpc.FileRequest{AllocID: allocID, Path: path, Offset: offset, Limit: limit})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	started := make(chan error, 1)
	go func() {
		err := n.Call(ctx, call, nil, func(b []byte) error {
			select {
			case started <- nil:
			default:
			}
			_, err := w.Write(b)
			return err
		})
		select {
		case started <- err:
		default:
		}
		w.CloseWithError(err) // nil becomes io.EOF
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, err
	}
	return closer{r, cancel}, nil
}

// closer ends the call when the reader is closed.
type closer struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the call.
func (c closer) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// StreamFile calls send for each frame of a file.
func (c Calls) StreamFile(ctx context.Context, req *api.FileStreamRequest, send func(*model.StreamFrame) error) error {
	return c.stream(ctx, req.AllocID, rpc.MethodStreamFile, rpc.FileRequest{
		AllocID: req.AllocID, Path: req.Path, Offset: req.Offset, Limit: -1, Origin: req.Origin, Follow: req.Follow,
	}, send)
}

// StreamLogs calls send for each frame of a task's log.
func (c Calls) StreamLogs(ctx context.Context, req *api.LogStreamRequest, send func(*model.StreamFrame) error) error {
	return c.stream(ctx, req.AllocID, rpc.MethodStreamLogs, rpc.LogRequest(*req), send)
}

func (c Calls) stream(ctx context.Context, allocID, method string, request any, send func(*model.StreamFrame) error) error {
	n, err := c.OfAlloc(allocID)
	if err != nil {
		return err
	}
	call, err := rpc.NewCall(method, request)
	if err != nil {
		return err
	}
	return n.Call(ctx, call, nil, decoded(send))
}

// decoded adapts a typed function to JSON answers of a node.
func decoded[T any](send func(*T) error) func([]byte) error {
	return func(b []byte) error {
		var v T
		if err := json.Unmarshal(b, &v); err != nil {
			return fmt.Errorf("read a node's answer: %w", err)
		}
		return send(&v)
	}
}

// Exec runs a command in a task.
func (c Calls) Exec(ctx context.Context, req *api.ExecRequest, in <-chan *api.ExecInput, send func(*api.ExecOutput) error) error {
	n, err := c.OfAlloc(req.AllocID)
	if err != nil {
		return err
	}
	call, err := rpc.NewCall(rpc.MethodExec, rpc.ExecRequest(*req))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	raw := make(chan []byte)
	go func() {
		defer close(raw)
		for {
			select {
			case msg, ok := <-in:
				if !ok {
					return
				}
				b, err := json.Marshal(msg)
				if err != nil {
					return
				}
				select {
				case raw <- b:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return n.Call(ctx, call, raw, decoded(send))
}
