// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// commandOf is the command of an exec: the user's command, or the command of an action of
// the job.
func commandOf(a *model.Allocation, q rpc.ExecRequest) ([]string, error) {
	if q.Action == "" {
		if len(q.Cmd) == 0 {
			return nil, errdefs.InvalidArgumentf("command is not present")
		}
		return q.Cmd, nil
	}
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if t := tg.LookupTask(q.Task); t != nil {
		for _, act := range t.Actions {
			if act.Name == q.Action {
				return append([]string{act.Command}, act.Args...), nil
			}
		}
	}
	return nil, errdefs.NotFoundf("action %q not found", q.Action)
}

// execSession copies the messages of one exec to and from the driver's streams.
type execSession struct {
	stdin *io.PipeReader
	input *io.PipeWriter
	sizes chan driver.TerminalSize

	mu   sync.Mutex // one send at a time
	send func([]byte) error
}

func newExecSession(send func([]byte) error) *execSession {
	r, w := io.Pipe()
	return &execSession{stdin: r, input: w, sizes: make(chan driver.TerminalSize, 4), send: send}
}

// read hands the user's messages on until they end or ctx does.
func (s *execSession) read(ctx context.Context, in <-chan []byte) {
	defer s.input.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case b, ok := <-in:
			if !ok || !s.take(b) {
				return
			}
		}
	}
}

// take handles one message; false ends the input.
func (s *execSession) take(b []byte) bool {
	var m execInput
	if err := json.Unmarshal(b, &m); err != nil {
		s.input.CloseWithError(errdefs.InvalidArgumentf("decode the input of the exec: %w", err))
		return false
	}
	if m.TTYSize != nil {
		select {
		case s.sizes <- driver.TerminalSize{Height: m.TTYSize.Height, Width: m.TTYSize.Width}:
		default: // the newest of many sizes follows
		}
	}
	if m.Stdin == nil {
		return true
	}
	if len(m.Stdin.Data) > 0 {
		if _, err := s.input.Write(m.Stdin.Data); err != nil {
			return false
		}
	}
	if m.Stdin.Close {
		s.input.Close() // sizes may still come
	}
	return true
}

// close ends a Read of the input that nobody needs any more.
func (s *execSession) close() { s.stdin.CloseWithError(io.ErrClosedPipe) }

type execWriter struct {
	s      *execSession
	stderr bool
}

func (s *execSession) writer(stderr bool) io.Writer { return &execWriter{s, stderr} }

func (w *execWriter) Write(p []byte) (int, error) {
	m := execOutput{Stdout: &execIO{Data: p}}
	if w.stderr {
		m = execOutput{Stderr: &execIO{Data: p}}
	}
	if err := w.s.put(m); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *execSession) put(m execOutput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sendJSON(s.send, m)
}

// finish says that both outputs have ended, and how the command did.
func (s *execSession) finish(code int) error {
	if err := s.put(execOutput{Stdout: &execIO{Close: true}}); err != nil {
		return err
	}
	if err := s.put(execOutput{Stderr: &execIO{Close: true}}); err != nil {
		return err
	}
	return s.put(execOutput{Exited: true, Result: &execResult{ExitCode: code}})
}
