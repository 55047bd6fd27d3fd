// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// runner starts the process of a plugin for go-plugin, with its user and rights. go-plugin
// makes a folder for the socket of each.
type runner struct {
	cmd    *exec.Cmd
	start  func(cmd *exec.Cmd) error
	stdout io.ReadCloser
	stderr io.ReadCloser
}

// newRunner makes the runner of a command. rest receives what the process writes to
// its standard output after the handshake.
func newRunner(cmd *exec.Cmd, rest io.Writer, start func(cmd *exec.Cmd) error) (*runner, error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	return &runner{cmd: cmd, start: start, stdout: &greeting{from: stdout, rest: rest}, stderr: stderr}, nil
}

// Start implements runner.Runner of go-plugin, as the methods below do.
func (r *runner) Start(context.Context) error { return r.start(r.cmd) }

// Wait waits for the end of the process.
func (r *runner) Wait(context.Context) error { return r.cmd.Wait() }

// Kill kills the process.
func (r *runner) Kill(context.Context) error {
	if r.cmd.Process == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stdout is the handshake.
func (r *runner) Stdout() io.ReadCloser { return r.stdout }

// Stderr returns the standard error of the process.
func (r *runner) Stderr() io.ReadCloser { return r.stderr }

// Name is the path of the executable.
func (r *runner) Name() string { return r.cmd.Path }

// ID is the pid.
func (r *runner) ID() string { return strconv.Itoa(r.pid()) }

func (r *runner) pid() int {
	if r.cmd.Process == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// Diagnose adds nothing: see launchError.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost leaves addresses as they are.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin leaves addresses as they are.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// greeting reads the first line of a process's output, and has the rest written
// elsewhere: go-plugin would read the rest without a use for it.
type greeting struct {
	from io.ReadCloser
	rest io.Writer
	over bool
}

func (g *greeting) Read(p []byte) (int, error) {
	if g.over {
		return 0, io.EOF
	}
	n, err := g.from.Read(p)
	for i, b := range p[:n] {
		if b != '\n' {
			continue
		}
		g.over = true
		after := append([]byte(nil), p[i+1:n]...)
		go func() {
			if _, err := g.rest.Write(after); err == nil {
				_, _ = io.Copy(g.rest, g.from) // it ends with the process
			}
		}()
		return i + 1, nil
	}
	return n, err
}

func (g *greeting) Close() error { return g.from.Close() }
