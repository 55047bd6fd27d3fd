// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"github.com/drover-project/drover/core/api"
)

// execFlags are the flags of commands that run a program in a task.
type execFlags struct {
	stdin  bool
	tty    string // "", "true" or "false"
	escape string
}

// ttyFlag is a bool flag that records whether it was given.
type ttyFlag struct{ value *string }

func (t ttyFlag) String() string   { return "" }
func (t ttyFlag) IsBoolFlag() bool { return true }
func (t ttyFlag) Set(v string) error {
	if v != "true" && v != "false" {
		return fmt.Errorf("%q is neither true nor false", v)
	}
	*t.value = v
	return nil
}

func (x *execFlags) declare(fs *flag.FlagSet) {
	fs.BoolVar(&x.stdin, "i", true, "Passes standard input to the command.")
	fs.Var(ttyFlag{&x.tty}, "t", "Allocates a terminal for the command. On by default if standard input and output are a terminal.")
	fs.StringVar(&x.escape, "e", "~", "Escape character. Typed at the start of a line and followed by a dot it ends the session; typed twice it sends itself; none disables it.")
}

func allocExec() spec {
	return spec{
		usage: "alloc exec [options] <allocation> <command> [<args>...]", synopsis: "Runs a command in a task", min: 2, max: -1, raw: 2, takes: "allocs",
		help: "The exit code is the exit code of the command. Everything after the command is passed\nto it; write -- before the command if its own options include -h or -help.",
		setup: func(fs *flag.FlagSet) run {
			x, o := &execFlags{}, &source{}
			x.declare(fs)
			o.declareAlloc(fs)
			task := fs.String("task", "", "The task, if the allocation has several.")
			req := &api.ExecRequest{Env: map[string]string{}}
			fs.StringVar(&req.User, "user", "", "The user of the command, as the task knows it. The task's own if empty.")
			fs.StringVar(&req.Dir, "dir", "", "The directory of the command: an absolute path, as the task sees it. The task's own if empty.")
			fs.Func("env", "A variable of the command, as NAME=VALUE. Can be given several times.", func(kv string) error {
				name, value, ok := strings.Cut(kv, "=")
				if !ok || name == "" {
					return fmt.Errorf("%q is not NAME=VALUE", kv)
				}
				req.Env[name] = value
				return nil
			})
			return func(ctx context.Context, s *session, args []string) error {
				a, err := o.allocWithTask(ctx, s, args[0], task)
				if err != nil {
					return err
				}
				req.AllocID, req.Task, req.Cmd = a.ID, *task, args[1:]
				return x.exec(ctx, s, req)
			}
		},
	}
}

// exec runs the request on the session's terminal and exits with the exit code of
// the remote command.
func (x *execFlags) exec(ctx context.Context, s *session, req *api.ExecRequest) error {
	req.Tty = x.tty == "true" || x.tty == "" && x.stdin && s.InTerminal && s.Terminal
	switch {
	case req.Tty && !x.stdin:
		return errors.New("a terminal needs standard input: use -t together with -i")
	case req.Tty && !s.InTerminal:
		return errors.New("standard input is not a terminal: pass -t=false")
	case len(x.escape) != 1 && x.escape != "none":
		return fmt.Errorf("-e %q: give a single character, or none", x.escape)
	}
	var in io.Reader
	if x.stdin {
		in = s.In
	}
	var sizes <-chan api.TermSize
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if req.Tty {
		restore, err := rawTerminal(s.In)
		if err != nil {
			return err
		}
		defer restore()
		sizes = watchSize(ctx, s.Out)
		if x.escape != "none" {
			in = &escapeReader{in: in, escape: x.escape[0], lineStart: true, leave: func() { leave(errLeft) }}
		}
	}
	code, err := s.client.Exec(ctx, req, in, s.Out, s.Err, sizes)
	switch {
	case errors.Is(context.Cause(ctx), errLeft):
		return errLeft
	case err != nil:
		return err
	case code != 0:
		return &exitCode{code: code}
	}
	return nil
}

// errLeft is returned when the user ends a session with the escape character.
var errLeft = &exitCode{code: exitError, err: errors.New("the session was ended with the escape character")}

// rawTerminal puts the terminal into raw mode, in which every key goes to the remote
// program, and returns a function that restores it.
func rawTerminal(in io.Reader) (restore func(), err error) {
	f, ok := in.(interface{ Fd() uintptr })
	if !ok {
		return nil, errors.New("standard input is not a terminal: pass -t=false")
	}
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("cannot switch the terminal to raw mode: %w", err)
	}
	return func() { _ = term.Restore(int(f.Fd()), state) }, nil // a failure to restore cannot be handled here
}

// sizeOf returns the size of the terminal that out writes to. It reports false if
// out is not a terminal.
func sizeOf(out io.Writer) (api.TermSize, bool) {
	f, ok := underlying(out).(interface{ Fd() uintptr })
	if !ok {
		return api.TermSize{}, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return api.TermSize{Width: width, Height: height}, err == nil
}

// escapeReader handles the escape character at the start of a line.
type escapeReader struct {
	in        io.Reader
	escape    byte
	lineStart bool   // the next byte begins a line
	escaped   bool   // the last byte was the escape character and has not been passed on
	ended     bool   // the user has ended the session
	leave     func() // ends the session
	held      []byte // bytes that the next Read returns first
}

// Read passes the input on without escape sequences.
func (e *escapeReader) Read(p []byte) (int, error) {
	if len(e.held) == 0 && e.ended {
		return 0, io.EOF
	}
	if len(e.held) == 0 {
		buf := make([]byte, max(len(p)/2, 1)) // each byte read may yield two
		n, err := e.in.Read(buf)
		e.held = e.filter(buf[:n])
		if err != nil && len(e.held) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.held)
	e.held = e.held[n:]
	return n, nil
}

func (e *escapeReader) filter(in []byte) []byte {
	var out []byte
	for _, b := range in {
		switch {
		case e.escaped && b == '.':
			e.ended = true
			e.leave()
			return out
		case e.escaped:
			e.escaped = false
			out = append(out, e.escape)
			if b != e.escape {
				out = append(out, b)
			}
		case e.lineStart && b == e.escape:
			e.escaped = true
			continue
		default:
			out = append(out, b)
		}
		e.lineStart = b == '\r' || b == '\n'
	}
	return out
}
