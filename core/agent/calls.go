// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ rpc.Node = (*Agent)(nil)

// Call implements rpc.Node. A panic fails only the request.
func (a *Agent) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		a.cfg.Logger.Error("a request to this node panicked; this is a defect of drover", p.Fields("request", call.Method)...)
		err = errdefs.Internalf("the request %q panicked; see the log of the node's agent", call.Method)
	})
	return a.call(ctx, call, in, send)
}

func (a *Agent) call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	switch call.Method {
	case rpc.MethodHostStats:
		return a.answerHostStats(ctx, send)
	case rpc.MethodCollect:
		return a.collector.All(ctx)
	case rpc.MethodNodeMeta:
		return a.answerMeta(send)
	case rpc.MethodSetNodeMeta:
		return with(call, func(change map[string]*string) error { return a.applyMeta(ctx, change, send) })
	case rpc.MethodNodeCluster:
		return a.answerCluster(send)
	case rpc.MethodTrust:
		return a.trust(ctx, send)
	case rpc.MethodAllocGC:
		return with(call, func(q rpc.AllocRequest) error { return a.collector.One(ctx, q.AllocID) })
	case rpc.MethodAllocStats:
		return with(call, func(q rpc.AllocRequest) error { return a.answerStats(ctx, q, send) })
	case rpc.MethodChecks:
		return with(call, func(q rpc.AllocRequest) error { return a.answerChecks(q, send) })
	case rpc.MethodRestart:
		return with(call, a.restartAlloc)
	case rpc.MethodSignal:
		return with(call, func(q rpc.SignalRequest) error { return a.signalAlloc(ctx, q) })
	case rpc.MethodListFiles, rpc.MethodStatFile, rpc.MethodReadFile, rpc.MethodStreamFile:
		return with(call, func(q rpc.FileRequest) error { return a.fileCall(ctx, call.Method, q, send) })
	case rpc.MethodStreamLogs:
		return with(call, func(q rpc.LogRequest) error { return a.streamLogs(ctx, q, frames(send)) })
	case rpc.MethodPlugins:
		return a.answerPlugins(send)
	case rpc.MethodPlugin:
		return with(call, func(q rpc.PluginRequest) error { return a.answerPlugin(q.Name, send) })
	case rpc.MethodChangePlugin, rpc.MethodInstallPlugin:
		return with(call, func(q rpc.PluginRequest) error { return a.changePlugin(ctx, q, in, send) })
	case rpc.MethodHTTP:
		return a.http.Answer(ctx, in, send)
	case rpc.MethodExec:
		return with(call, func(q rpc.ExecRequest) error { return a.exec(ctx, q, in, send) })
	}
	return errdefs.Unimplementedf("this node does not know the request %q; upgrade it", call.Method)
}

// with decodes a call's request.
func with[T any](call rpc.Call, f func(T) error) error {
	var q T
	if err := json.Unmarshal(call.Body, &q); err != nil {
		return errdefs.InvalidArgumentf("decode the request %q: %w", call.Method, err)
	}
	return f(q)
}

func sendJSON(send func([]byte) error, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errdefs.Internalf("encode the answer: %w", err)
	}
	return send(body)
}

func frames(send func([]byte) error) func(*rpc.StreamFrame) error {
	return func(f *rpc.StreamFrame) error { return sendJSON(send, f) }
}

func (a *Agent) restartAlloc(q rpc.RestartRequest) error {
	r, err := a.allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	return r.Restart(q.Task, q.AllTasks)
}

func (a *Agent) signalAlloc(ctx context.Context, q rpc.SignalRequest) error {
	r, err := a.allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	return r.Signal(ctx, q.Task, q.Signal)
}

// answerChecks returns no results: service checks do not run on this node yet.
func (a *Agent) answerChecks(q rpc.AllocRequest, send func([]byte) error) error {
	if _, err := a.allocs.Runner(q.AllocID); err != nil {
		return err
	}
	return sendJSON(send, map[string]any{})
}

// The messages of an exec, as the public API has them.
type (
	execIO struct {
		Data  []byte `json:"data,omitempty"`
		Close bool   `json:"close,omitempty"`
	}
	termSize struct {
		Height int `json:"height,omitempty"`
		Width  int `json:"width,omitempty"`
	}
	execInput struct {
		Stdin   *execIO   `json:"stdin,omitempty"`
		TTYSize *termSize `json:"tty_size,omitempty"`
	}
	execResult struct {
		ExitCode int `json:"exit_code"`
	}
	execOutput struct {
		Stdout *execIO     `json:"stdout,omitempty"`
		Stderr *execIO     `json:"stderr,omitempty"`
		Exited bool        `json:"exited,omitempty"`
		Result *execResult `json:"result,omitempty"`
	}
)

func (a *Agent) exec(ctx context.Context, q rpc.ExecRequest, in <-chan []byte, send func([]byte) error) error {
	if a.cfg.NoExec {
		return errdefs.PermissionDeniedf("Permission denied: the configuration of this node has client.disable_remote_exec, so nobody runs commands in its tasks")
	}
	r, err := a.allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	cmd, err := commandOf(r.Alloc(), q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newExecSession(send)
	go s.read(ctx, in)
	result, err := r.Exec(ctx, q.Task, driver.ExecOptions{Command: cmd, TTY: q.Tty}, driver.ExecStream{
		Stdin: s.stdin, Stdout: s.writer(false), Stderr: s.writer(true), Resize: s.sizes,
	})
	s.close()
	if err != nil {
		return err
	}
	return s.finish(result.ExitCode)
}
