// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Client talks to the supervisor of a directory, and starts one if there is none. It
// is safe for concurrent use. It uses one connection and one goroutine, and
// reconnects when the connection is lost.
type Client struct {
	dir string

	mu      sync.Mutex
	conn    net.Conn
	seq     uint64
	pending map[uint64]chan *response // closed when the connection is lost
	closed  bool
	stays   error // why the supervisor did not move into this process's mount namespace

	dialing sync.Mutex // held while connecting
	reading sync.WaitGroup
}

// Open returns a client of the supervisor of dir. It creates dir with mode 0700. If
// the supervisor must be started, it runs this binary: see Main.
func Open(ctx context.Context, dir string) (*Client, error) {
	if _, err := openJournal(dir); err != nil {
		return nil, errdefs.FailedPreconditionf("open the supervisor: %w", err)
	}
	c := &Client{dir: dir, pending: map[uint64]chan *response{}}
	hello, err := c.Hello(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if hello.Version != protocolVersion {
		return nil, errors.Join(errdefs.FailedPreconditionf("the supervisor in %s speaks version %d, this plugin %d; stop its tasks or install the matching plugin",
			dir, hello.Version, protocolVersion), c.Close())
	}
	return c, nil
}

// Close closes the connection. The supervisor and the tasks keep running.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // the reader returns when the connection is closed
	}
	c.reading.Wait()
	return nil
}

// errLost means that the connection was lost before the answer arrived.
var errLost = errors.New("the supervisor's connection was lost")

// connect connects to the supervisor if there is no connection, and starts a
// supervisor if necessary.
func (c *Client) connect(ctx context.Context) error {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	c.mu.Lock()
	have, closed := c.conn != nil, c.closed
	c.mu.Unlock()
	if closed {
		return errdefs.Canceledf("the client of the supervisor is closed")
	}
	if have {
		return nil
	}
	conn, err := dial(c.dir)
	launched := time.Time{}
	for wait := time.Millisecond; err != nil; wait = min(2*wait, 50*time.Millisecond) {
		// Repeated, since the previous launch may have found a supervisor that was about to
		// exit.
		if time.Since(launched) > time.Second {
			if err := c.launch(ctx); err != nil {
				return err
			}
			launched = time.Now()
		}
		select {
		case <-ctx.Done():
			return errdefs.Unavailablef("%w (%w); see %s/supervisor.log", err, ctx.Err(), c.dir)
		case <-time.After(wait):
		}
		conn, err = dial(c.dir)
	}
	if conn, err = c.together(ctx, conn); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.reading.Go(func() { c.read(conn) })
	return nil
}

func (c *Client) launch(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{os.Args[0], hiddenArgument, roleLaunch, c.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errdefs.Unavailablef("start the supervisor in %s: %w: %s", c.dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// read delivers answers to the waiting calls until the connection ends.
func (c *Client) read(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		resp, err := readResponse(r)
		if err != nil {
			break
		}
		c.mu.Lock()
		ch := c.pending[resp.Seq]
		delete(c.pending, resp.Seq)
		c.mu.Unlock()
		if ch != nil {
			ch <- resp // the channel is buffered
		}
	}
	_ = conn.Close() // the connection is already broken
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	for seq, ch := range c.pending {
		close(ch)
		delete(c.pending, seq)
	}
}

func readResponse(r io.Reader) (*response, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	var resp response
	if err := json.Unmarshal(body, &resp); err != nil {
		return nil, err
	}
	return &resp, nil
}

// once sends a request over the current connection and waits for its answer. After
// errLost it is unknown whether the request was carried out.
func (c *Client) once(ctx context.Context, req request) (*response, error) {
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	ch := make(chan *response, 1)
	c.mu.Lock()
	if c.conn == nil {
		c.mu.Unlock()
		return nil, errLost
	}
	c.seq++
	req.Seq = c.seq
	if end, ok := ctx.Deadline(); ok && req.expires() {
		req.Until = uptime() + time.Until(end).Nanoseconds()
	}
	frame, err := encodeFrame(&req)
	if err == nil {
		c.pending[req.Seq] = ch
		if _, werr := c.conn.Write(frame); werr != nil {
			_ = c.conn.Close() // the reader then reports errLost to all calls
		}
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case resp, ok := <-ch:
		if !ok {
			return nil, errLost
		}
		if resp.Error != "" {
			return nil, errdefs.WithReason(errdefs.New(errdefs.Class(resp.Class), errors.New(resp.Error)), resp.Reason)
		}
		return resp, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, req.Seq)
		c.mu.Unlock()
		return nil, fmt.Errorf("wait for the supervisor: %w", ctx.Err())
	}
}

// call repeats an idempotent request until it is answered.
func (c *Client) call(ctx context.Context, req request) (*response, error) {
	for {
		resp, err := c.once(ctx, req)
		if !errors.Is(err, errLost) {
			return resp, err
		}
		select {
		case <-ctx.Done():
			return nil, errdefs.Unavailablef("%w (%w)", err, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Hello returns the supervisor's version and binary.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	resp, err := c.call(ctx, request{Op: opHello})
	if err != nil {
		return Hello{}, err
	}
	return *resp.Hello, nil
}

// Answers returns an error if the supervisor runs but does not answer. It does not
// start a supervisor: the next call that needs one does.
func (c *Client) Answers(ctx context.Context) error {
	c.mu.Lock()
	connected := c.conn != nil
	c.mu.Unlock()
	if !connected {
		return nil
	}
	_, err := c.once(ctx, request{Op: opHello})
	if errors.Is(err, errLost) {
		return nil // it was replaced meanwhile
	}
	return err
}

// Start starts a task. It returns AlreadyExists if the id is in use, and
// InvalidArgument if the task can never start.
func (c *Client) Start(ctx context.Context, spec Spec) (Status, error) {
	for {
		resp, err := c.once(ctx, request{Op: spec.op(), Spec: &spec})
		if err == nil {
			return *resp.Status, nil
		}
		if len(spec.Secrets) > 0 && errdefs.IsNotFound(err) {
			// An older supervisor that could not be replaced does not know the request. It
			// writes the environment into its journal, as it always has.
			spec.Env, spec.Secrets = spec.environ(), nil
			continue
		}
		if !errors.Is(err, errLost) {
			return Status{}, err
		}
		// Either the task runs and only the answer was lost, or the start was undone.
		status, err := c.Inspect(ctx, spec.ID)
		if err == nil || !errdefs.IsNotFound(err) {
			return status, err
		}
	}
}

// op returns the verb of a start.
func (s *Spec) op() string {
	switch {
	case s.Sandbox != nil && len(s.Secrets) > 0:
		return opIsolateSecret
	case s.Sandbox != nil:
		return opIsolate
	case len(s.Secrets) > 0:
		return opStartSecret
	}
	return opStart
}

// Wait waits until the task has ended.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	return c.status(ctx, request{Op: opWait, ID: id})
}

// Stop signals the task's process group, kills all its processes after timeout, and
// waits until the task has ended.
func (c *Client) Stop(ctx context.Context, id string, signal int, timeout time.Duration) (Status, error) {
	return c.status(ctx, request{Op: opStop, ID: id, Signal: signal, TimeoutMS: timeout.Milliseconds()})
}

// Inspect returns the state of a task.
func (c *Client) Inspect(ctx context.Context, id string) (Status, error) {
	return c.status(ctx, request{Op: opInspect, ID: id})
}

func (c *Client) status(ctx context.Context, req request) (Status, error) {
	resp, err := c.call(ctx, req)
	if err != nil {
		return Status{}, err
	}
	return *resp.Status, nil
}

// Signal signals the task's main process.
func (c *Client) Signal(ctx context.Context, id string, signal int) error {
	_, err := c.call(ctx, request{Op: opSignal, ID: id, Signal: signal})
	return err
}

// Destroy removes a task from the supervisor. With force it first kills a running
// task. The log files stay. It succeeds if the task does not exist.
func (c *Client) Destroy(ctx context.Context, id string, force bool) error {
	_, err := c.call(ctx, request{Op: opDestroy, ID: id, Force: force})
	return err
}

// Spec returns the spec with which a task was started. Of its secrets it has those that the
// process of the task still has.
func (c *Client) Spec(ctx context.Context, id string) (Spec, Status, error) {
	resp, err := c.call(ctx, request{Op: opSpec, ID: id})
	if err != nil {
		return Spec{}, Status{}, err
	}
	return *resp.Spec, *resp.Status, nil
}

// List returns all tasks.
func (c *Client) List(ctx context.Context) ([]Status, error) {
	resp, err := c.call(ctx, request{Op: opList})
	if err != nil {
		return nil, err
	}
	return resp.List, nil
}

// Shutdown ends the supervisor. It must have no tasks.
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := c.once(ctx, request{Op: opShutdown})
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// Upgrade makes the supervisor execute the binary at path, which must call Main.
// Tasks are not affected. If the binary cannot supervise, the supervisor keeps its
// old binary.
func (c *Client) Upgrade(ctx context.Context, path string) error {
	probe := exec.CommandContext(ctx, path, hiddenArgument, roleProbe)
	probe.Args[0] = os.Args[0]
	out, err := probe.Output()
	if err != nil {
		return errdefs.FailedPreconditionf("upgrade the supervisor to %s: it does not answer as one: %w", path, err)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.Itoa(protocolVersion) {
		return errdefs.FailedPreconditionf("upgrade the supervisor to %s: it speaks version %q, this plugin %d", path, got, protocolVersion)
	}
	want := Identity(path)
	if _, err := c.once(ctx, request{Op: opUpgrade, Path: path}); !errors.Is(err, errLost) {
		return err
	}
	hello, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	if hello.Binary != want {
		return errdefs.Abortedf("upgrade the supervisor to %s: it still runs another binary; see %s/supervisor.log", path, c.dir)
	}
	return nil
}

// UpToDate upgrades the supervisor if it runs another binary than this process, as
// after an upgrade of the plugin, unless this process's binary has been removed. It returns
// an error as well if the supervisor is in another mount namespace and could not leave it.
func (c *Client) UpToDate(ctx context.Context) error {
	hello, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	if own := ownBinary(); own != "" && hello.Binary != Identity(own) {
		if err := c.Upgrade(ctx, own); err != nil {
			return err
		}
		if hello, err = c.Hello(ctx); err != nil {
			return err
		}
	}
	if here := mounts(); here == "" || hello.Mounts == here {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errdefs.FailedPreconditionf("the supervisor could not leave the mount namespace in which it was started, so tasks do not see what is mounted for them from now on: %w", c.stays)
}
