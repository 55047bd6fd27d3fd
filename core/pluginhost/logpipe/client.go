// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package logpipe

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// SocketName is the collector's socket in the directory that it is started for.
const SocketName = "logs.sock"

// Client asks the collector, and starts it where none answers.
type Client struct {
	socket  string
	command []string

	start sync.Mutex // one start at a time
}

// NewClient returns a client. dir is where the socket lies; command starts a
// collector for dir and outlives its caller.
func NewClient(dir string, command []string) *Client {
	return &Client{socket: filepath.Join(dir, SocketName), command: command}
}

// Attach makes the collector read the pipes. They stay attached until Detach, even when
// this process ends.
func (c *Client) Attach(ctx context.Context, pipes ...Pipe) error {
	for _, p := range pipes {
		if err := c.ask(ctx, request{Attach: &p}, true); err != nil {
			return err
		}
	}
	return nil
}

// Detach makes the collector stop reading the FIFOs. If there is no collector, nothing
// reads them.
func (c *Client) Detach(ctx context.Context, paths ...string) error {
	for _, p := range paths {
		if err := c.ask(ctx, request{Detach: p}, false); err != nil && !errdefs.IsUnavailable(err) {
			return err
		}
	}
	return nil
}

// tries is how often a request is made: a collector that was idle may end just
// when it is asked.
const tries = 3

func (c *Client) ask(ctx context.Context, r request, start bool) (err error) {
	for range tries {
		var conn net.Conn
		if conn, err = c.dial(ctx); err != nil && start {
			if err = c.launch(ctx); err == nil {
				conn, err = c.dial(ctx)
			}
		}
		if err == nil {
			err = exchange(ctx, conn, r)
		}
		if !errdefs.IsUnavailable(err) || !start {
			break
		}
	}
	return err
}

func exchange(ctx context.Context, conn net.Conn, r request) error {
	defer func() { _ = conn.Close() }() // the exchange is over
	deadline := time.Now().Add(clientLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline) // the exchange below tells
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return errdefs.Unavailablef("ask the log collector: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return errdefs.Unavailablef("hear from the log collector: %w", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return errdefs.Internalf("decode the log collector's answer: %w", err)
	}
	if a.Error != "" {
		return errdefs.FailedPreconditionf("log collector: %s", a.Error)
	}
	return nil
}

// clientLimit bounds one exchange and the start of a collector.
const clientLimit = 10 * time.Second

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: clientLimit}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, errdefs.Unavailablef("log collector: nobody answers: %w", err)
	}
	return conn, nil
}

// launch starts a collector and waits until it answers.
func (c *Client) launch(ctx context.Context) error {
	c.start.Lock()
	defer c.start.Unlock()
	if conn, err := c.dial(ctx); err == nil { // another caller was faster
		return conn.Close()
	}
	if len(c.command) == 0 {
		return errdefs.FailedPreconditionf("log collector: there is no command to start it with")
	}
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Dir = filepath.Dir(c.socket)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return errdefs.FailedPreconditionf("start the log collector: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it reaps the collector, which may outlive this process
	ctx, cancel := context.WithTimeout(ctx, clientLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errdefs.Unavailablef("the log collector ended at once: %w", fmt.Errorf("%v", err))
		case <-ctx.Done():
			return errdefs.DeadlineExceededf("the log collector does not answer: %w", ctx.Err())
		case <-tick.C:
			if conn, err := c.dial(ctx); err == nil {
				return conn.Close()
			}
		}
	}
}
