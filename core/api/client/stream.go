// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/websocket"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ListFiles lists a folder of an alloc.
func (c *Client) ListFiles(ctx context.Context, allocID, path string) ([]*model.FileInfo, error) {
	out, _, err := get[[]*model.FileInfo](ctx, c, "/v1/client/fs/ls/"+url.PathEscape(allocID), withParam(nil, "path", path))
	return out, err
}

// StatFile describes a file of an alloc.
func (c *Client) StatFile(ctx context.Context, allocID, path string) (*model.FileInfo, error) {
	out, _, err := get[*model.FileInfo](ctx, c, "/v1/client/fs/stat/"+url.PathEscape(allocID), withParam(nil, "path", path))
	return out, err
}

// ReadFile reads a file of an alloc from offset; a limit below 0 means up to the end.
// The caller closes it.
func (c *Client) ReadFile(ctx context.Context, allocID, path string, offset, limit int64) (io.ReadCloser, error) {
	q := &Query{Params: url.Values{"path": {path}, "offset": {strconv.FormatInt(offset, 10)}}}
	if limit >= 0 {
		q.Params.Set("limit", strconv.FormatInt(limit, 10))
	}
	return c.Raw(ctx, "/v1/client/fs/readat/"+url.PathEscape(allocID), q)
}

// StreamFile calls each for every frame of a file except heartbeats, until the file or
// ctx ends.
func (c *Client) StreamFile(ctx context.Context, req *api.FileStreamRequest, each func(*model.StreamFrame) error) error {
	q := &Query{Params: url.Values{"path": {req.Path}, "offset": {strconv.FormatInt(req.Offset, 10)},
		"origin": {req.Origin}, "follow": {strconv.FormatBool(req.Follow)}}}
	return c.frames(ctx, "/v1/client/fs/stream/"+url.PathEscape(req.AllocID), q, each)
}

// StreamLogs calls each for every frame of a task's log except heartbeats, until the
// log or ctx ends.
func (c *Client) StreamLogs(ctx context.Context, req *api.LogStreamRequest, each func(*model.StreamFrame) error) error {
	q := &Query{Params: url.Values{"task": {req.Task}, "type": {req.Type}, "offset": {strconv.FormatInt(req.Offset, 10)},
		"origin": {req.Origin}, "follow": {strconv.FormatBool(req.Follow)}}}
	return c.frames(ctx, "/v1/client/fs/logs/"+url.PathEscape(req.AllocID), q, each)
}

func (c *Client) frames(ctx context.Context, path string, q *Query, each func(*model.StreamFrame) error) error {
	return c.objects(ctx, path, q, func(dec *json.Decoder) error {
		f := &model.StreamFrame{}
		if err := dec.Decode(f); err != nil || f.IsHeartbeat() {
			return err
		}
		return each(f)
	})
}

// Events calls each for every batch of events of the topics ("Job",
// "Allocation:ID"...) from index onwards.
func (c *Client) Events(ctx context.Context, topics []string, index uint64, each func(*api.EventBatch) error) error {
	q := &Query{Params: url.Values{"topic": topics, "index": {strconv.FormatUint(index, 10)}}}
	return c.objects(ctx, "/v1/event/stream", q, func(dec *json.Decoder) error {
		b := &api.EventBatch{}
		if err := dec.Decode(b); err != nil || b.Index == 0 {
			return err
		}
		return each(b)
	})
}

func (c *Client) objects(ctx context.Context, path string, q *Query, next func(*json.Decoder) error) error {
	body, err := c.Raw(ctx, path, q)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		switch err := next(dec); {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			return err
		}
	}
}

// Exec runs a command in a task. It sends stdin until it ends, writes output to stdout
// and stderr, and sends terminal sizes from sizes (may be nil). It returns the
// command's exit code.
func (c *Client) Exec(ctx context.Context, req *api.ExecRequest, stdin io.Reader, stdout, stderr io.Writer, sizes <-chan api.TermSize) (int, error) {
	ws, err := c.dialExec(ctx, req)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = ws.Close() }) // unblocks the reads below
	defer stop()
	defer ws.Close()
	finished := make(chan struct{})
	defer close(finished)
	go sendStdin(ws, stdin)
	go sendSizes(ws, sizes, finished)
	for {
		var out api.ExecOutput
		if err := websocket.JSON.Receive(ws, &out); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return 0, errdefs.Unavailablef("the agent ended the command's connection before the command ended: %w", err)
		}
		if out.Error != "" {
			return 0, errors.New(out.Error)
		}
		if err := writeOutput(&out, stdout, stderr); err != nil {
			return 0, err
		}
		if out.Exited {
			if out.Result == nil {
				return 0, nil
			}
			return out.Result.ExitCode, nil
		}
	}
}

func (c *Client) dialExec(ctx context.Context, req *api.ExecRequest) (*websocket.Conn, error) {
	cmd, err := json.Marshal(req.Cmd)
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	params := c.params(nil)
	params.Set("command", string(cmd))
	params.Set("task", req.Task)
	params.Set("tty", strconv.FormatBool(req.Tty))
	params.Set("ws_handshake", "true")
	path := "/v1/client/allocation/" + url.PathEscape(req.AllocID) + "/exec"
	if req.Action != "" {
		path = jobPath(req.JobID, "/action")
		params.Set("action", req.Action)
		params.Set("allocID", req.AllocID)
		params.Del("command")
	}
	for name, value := range map[string]string{"user": req.User, "dir": req.Dir} {
		if value != "" {
			params.Set(name, value)
		}
	}
	if len(req.Env) > 0 {
		env, err := json.Marshal(req.Env)
		if err != nil {
			return nil, fmt.Errorf("encode the variables of the command: %w", err)
		}
		params.Set("env", string(env))
	}
	target := "ws" + strings.TrimPrefix(c.base, "http") + path + "?" + params.Encode()
	cfg, err := websocket.NewConfig(target, c.base)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection of the command: %w", err)
	}
	c.authorize(cfg.Header)
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(err)
	}
	ws, err := websocket.NewClient(cfg, conn)
	if err != nil {
		_ = conn.Close() // the error of the handshake is more informative
		return nil, fmt.Errorf("the agent refused to run the command: %w", err)
	}
	hello := map[string]any{"version": 1, "auth_token": c.cfg.Token}
	if err := websocket.JSON.Send(ws, hello); err != nil {
		_ = ws.Close() // the error of the send is more informative
		return nil, fmt.Errorf("greet the agent: %w", err)
	}
	return ws, nil
}

// sendStdin returns when stdin ends or the connection is closed.
func sendStdin(ws *websocket.Conn, stdin io.Reader) {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	buf := make([]byte, 8<<10)
	for {
		n, err := stdin.Read(buf)
		if n > 0 {
			if websocket.JSON.Send(ws, &api.ExecInput{Stdin: &api.ExecIO{Data: buf[:n]}}) != nil {
				return
			}
		}
		if err != nil {
			_ = websocket.JSON.Send(ws, &api.ExecInput{Stdin: &api.ExecIO{Close: true}}) // the reader notices a broken connection
			return
		}
	}
}

func sendSizes(ws *websocket.Conn, sizes <-chan api.TermSize, finished <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok || websocket.JSON.Send(ws, &api.ExecInput{TTYSize: &size}) != nil {
				return
			}
		case <-finished:
			return
		}
	}
}

func writeOutput(out *api.ExecOutput, stdout, stderr io.Writer) error {
	if out.Stdout != nil {
		if _, err := stdout.Write(out.Stdout.Data); err != nil {
			return err
		}
	}
	if out.Stderr != nil {
		if _, err := stderr.Write(out.Stderr.Data); err != nil {
			return err
		}
	}
	return nil
}
