// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/net/websocket"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
)

// Close codes of RFC 6455.
const (
	closeNormal   = 1000
	closeInternal = 1011
	closeRefused  = 4000 // plus the HTTP status that a plain request would get
	maxCloseText  = 123  // bytes
)

// execAlloc runs a command, or an action of the job, in a task.
func (s *Server) execAlloc(w http.ResponseWriter, r *http.Request) (any, error) {
	p := paramsOf(r)
	req := &ExecRequest{AllocID: r.PathValue("id"), Task: p.get("task"), Action: p.get("action"), JobID: p.get("job"), User: p.get("user"), Dir: p.get("dir")}
	if env := p.get("env"); env != "" {
		if err := json.Unmarshal([]byte(env), &req.Env); err != nil {
			return nil, fail(http.StatusBadRequest, "failed to parse env, which is a JSON object of strings: "+model.WrongType(err, []byte(env), &req.Env, "env").Error())
		}
	}
	if c := p.get("command"); c != "" {
		if err := json.Unmarshal([]byte(c), &req.Cmd); err != nil {
			return nil, fail(http.StatusBadRequest, "failed to parse command: "+model.WrongType(err, []byte(c), &req.Cmd, "command").Error())
		}
	}
	if len(req.Cmd) == 0 && req.Action == "" {
		return nil, fail(http.StatusBadRequest, "command is not present")
	}
	return s.execIn(w, r, req)
}

// jobAction runs an action of a job in one of its allocs.
func (s *Server) jobAction(w http.ResponseWriter, r *http.Request) (any, error) {
	p := paramsOf(r)
	req := &ExecRequest{AllocID: p.get("allocID"), Task: p.get("task"), Action: p.get("action"), JobID: r.PathValue("id")}
	group := p.get("group")
	if req.Action == "" || req.AllocID == "" {
		return nil, fail(http.StatusBadRequest, "name the action and the allocation: ?action=NAME&allocID=ID")
	}
	if a, err := s.knownAlloc(req.AllocID); err == nil && a != nil && group != "" && group != a.TaskGroup {
		return nil, fail(http.StatusBadRequest, "allocation "+a.ID+" is of the group "+strconv.Quote(a.TaskGroup)+" and not of "+strconv.Quote(group))
	}
	return s.execIn(w, r, req)
}

// execIn exchanges JSON messages over a websocket: ExecInput from the client,
// ExecOutput to the client.
func (s *Server) execIn(w http.ResponseWriter, r *http.Request, req *ExecRequest) (any, error) {
	var err error
	if req.Tty, err = boolParam(r, "tty"); err != nil {
		return nil, err
	}
	greet, err := boolParam(r, "ws_handshake")
	if err != nil {
		return nil, err
	}
	a, refusal := s.knownAlloc(req.AllocID)
	if refusal == nil {
		refusal = expandAction(req, a)
	}
	if r.Header.Get("Upgrade") == "" {
		return nil, cmp.Or(refusal, fail(http.StatusBadRequest, "exec needs a websocket; send an upgrade request"))
	}
	ctx := r.Context()
	websocket.Server{
		Handshake: func(*websocket.Config, *http.Request) error { return nil }, // guarded has already checked the origin
		Handler: func(ws *websocket.Conn) {
			if refusal != nil {
				closeExec(ws, refusal)
				return
			}
			s.execOver(ctx, ws, req, greet)
		},
	}.ServeHTTP(w, r)
	return done, nil
}

// closeExec closes a connection with a reason. Clients of the reference read the
// reason from the close frame and print it; our client reads it from a message.
func closeExec(ws *websocket.Conn, reason error) {
	_ = ws.SetWriteDeadline(time.Now().Add(streamPatience)) // for the final messages, which the client may not read
	if reason == nil {
		_ = ws.WriteClose(closeNormal)
		return
	}
	text := reason.Error()
	_ = websocket.JSON.Send(ws, &ExecOutput{Error: text})
	code := closeInternal
	if status := statusOf(reason); status < http.StatusInternalServerError {
		code = closeRefused + status
	}
	ws.PayloadType = websocket.CloseFrame
	_, _ = ws.Write(append(binary.BigEndian.AppendUint16(nil, uint16(code)), cutText(text, maxCloseText)...))
}

// cutText cuts text to at most limit bytes at the end of a character.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// expandAction sets the command of the requested action in the request.
func expandAction(req *ExecRequest, a *model.Allocation) error {
	if req.Action == "" || a == nil {
		return nil
	}
	if tg := a.Job.LookupTaskGroup(a.TaskGroup); tg != nil {
		for _, t := range tg.Tasks {
			for _, action := range t.Actions {
				if action.Name == req.Action && (req.Task == "" || req.Task == t.Name) {
					req.Task, req.Cmd = t.Name, append([]string{action.Command}, action.Args...)
					return nil
				}
			}
		}
	}
	return fail(http.StatusNotFound, "action \""+req.Action+"\" is not in the job of allocation "+a.ID)
}

func (s *Server) execOver(ctx context.Context, ws *websocket.Conn, req *ExecRequest, greet bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ws.MaxPayloadBytes = 1 << 20
	if greet {
		if err := ws.SetReadDeadline(time.Now().Add(readHeaderTimeout)); err != nil {
			return
		}
		var hello struct {
			// Its auth_token has no reader: there is no access control yet.
			Version int `json:"version"`
		}
		if err := websocket.JSON.Receive(ws, &hello); err != nil || hello.Version != 1 {
			_ = ws.WriteClose(closeInternal) // the close frame tells the client
			return
		}
		if err := ws.SetReadDeadline(time.Time{}); err != nil {
			return
		}
	}
	in := make(chan *ExecInput)
	go func() {
		var wrong error
		defer close(in)
		defer func() { cancel(wrong) }() // if the client disconnects, its command is ended
		if p := panics.Catch(func() { wrong = s.readInput(ctx, ws, in) }); p != nil {
			s.log.Error("the input of a command panicked; this is a defect of drover", p.Fields()...)
		}
	}()
	err := s.local.Exec(ctx, req, in, func(o *ExecOutput) error {
		if err := ws.SetWriteDeadline(time.Now().Add(streamPatience)); err != nil {
			return err
		}
		return websocket.JSON.Send(ws, o)
	})
	if ctx.Err() != nil {
		// Without a message that cannot be read, the client has disconnected.
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	closeExec(ws, err)
}

// readInput forwards the client's messages until the connection closes, or returns what
// is wrong with a message.
func (s *Server) readInput(ctx context.Context, ws *websocket.Conn, in chan<- *ExecInput) error {
	for {
		var raw []byte
		err := websocket.Message.Receive(ws, &raw)
		if errors.Is(err, websocket.ErrFrameTooLarge) {
			return fail(http.StatusBadRequest, "a message of the client is larger than 1 MiB; send less at once")
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.log.Trace("exec client is gone", "error", err)
			}
			return nil
		}
		msg := &ExecInput{}
		if err := json.Unmarshal(raw, msg); err != nil {
			return fail(http.StatusBadRequest, "a message of the client cannot be read: "+err.Error())
		}
		select {
		case in <- msg:
		case <-ctx.Done():
			return nil
		}
	}
}
