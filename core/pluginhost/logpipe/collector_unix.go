// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package logpipe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/tasklog"
)

// Collector reads FIFOs into log files.
type Collector struct {
	idle time.Duration

	mu    sync.Mutex
	pipes map[string]*copier // by path of the FIFO
	wg    sync.WaitGroup
	busy  chan struct{} // of size 1: something was attached or detached
}

// copier copies one FIFO.
type copier struct {
	fifo *os.File
	done chan struct{}
}

// NewCollector returns a collector that ends when it has had no FIFO for the time idle; 0
// means never.
func NewCollector(idle time.Duration) *Collector {
	return &Collector{idle: idle, pipes: map[string]*copier{}, busy: make(chan struct{}, 1)}
}

// acceptPause is the pause after a client could not be accepted.
const acceptPause = 100 * time.Millisecond

// requestLimit bounds one exchange with a client.
const requestLimit = 10 * time.Second

// Serve answers on the listener until ctx ends or the collector was idle for long.
func (c *Collector) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.endWhenIdle(ctx, cancel)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept tells
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			c.Close()
			return nil
		default: // for example, no descriptor is free; attached FIFOs are still read
			_ = sleep.For(ctx, acceptPause)
			continue
		}
		go c.answer(conn)
	}
}

func (c *Collector) endWhenIdle(ctx context.Context, end func()) {
	if c.idle <= 0 {
		return
	}
	timer := time.NewTimer(c.idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.busy:
			timer.Reset(c.idle)
		case <-timer.C:
			c.forget()
			if c.count() == 0 {
				end()
				return
			}
			timer.Reset(c.idle)
		}
	}
}

// forget detaches FIFOs that are no longer there: their alloc's directory was
// removed without a word, as it happens when an agent is gone for good.
func (c *Collector) forget() {
	c.mu.Lock()
	var gone []string
	for path := range c.pipes {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, path)
		}
	}
	c.mu.Unlock()
	for _, path := range gone {
		c.Detach(path)
	}
}

func (c *Collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pipes)
}

func (c *Collector) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the client has its answer or has gone
	_ = conn.SetDeadline(time.Now().Add(requestLimit))
	var out answer
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err == nil {
		err = c.do(line)
	}
	if err != nil {
		out.Error = err.Error()
	}
	out.Pipes = c.count()
	_ = json.NewEncoder(conn).Encode(out) // a client that has disconnected asks again
}

func (c *Collector) do(line []byte) error {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("decode the request: %w", err)
	}
	select {
	case c.busy <- struct{}{}:
	default:
	}
	switch {
	case r.Attach != nil:
		return c.Attach(*r.Attach)
	case r.Detach != "":
		c.Detach(r.Detach)
	}
	return nil
}

// Attach makes the FIFO if it is not there and begins to read it. A pipe that is
// attached already stays as it is.
func (c *Collector) Attach(p Pipe) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipes[p.Path] != nil {
		return nil
	}
	if err := unix.Mkfifo(p.Path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the log FIFO %s: %w", p.Path, err)
	}
	w, shut, err := p.open()
	if err != nil {
		return err
	}
	// Read and write: a FIFO that has a writer of its own is never at its end,
	// however often the plugin's side comes and goes.
	f, err := os.OpenFile(p.Path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		shut()
		return fmt.Errorf("open the log FIFO %s: %w", p.Path, err)
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		shut()
		_ = f.Close() // nothing was read
		return errdefs.FailedPreconditionf("log FIFO %s: something else lies there", p.Path)
	}
	cp := &copier{fifo: f, done: make(chan struct{})}
	c.pipes[p.Path] = cp
	c.wg.Go(func() {
		defer close(cp.done)
		defer shut()
		cp.run(w)
	})
	return nil
}

func (cp *copier) run(w *tasklog.Writer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := cp.fifo.Read(buf)
		_, _ = w.Write(buf[:n]) // it counts what it cannot keep
		if err != nil {
			return // the deadline of a detach: everything in the pipe has been read
		}
	}
}

// Detach reads what is left in a FIFO, stops reading it, and removes it.
func (c *Collector) Detach(path string) {
	c.mu.Lock()
	cp := c.pipes[path]
	delete(c.pipes, path)
	c.mu.Unlock()
	if cp == nil {
		return
	}
	cp.end()
	_ = os.Remove(path) // it goes with the alloc's directory otherwise
}

// drainTime is how long a detached FIFO is read on while it has content.
const drainTime = 100 * time.Millisecond

func (cp *copier) end() {
	_ = cp.fifo.SetReadDeadline(time.Now().Add(drainTime)) // without one, Close ends the read
	<-cp.done
	_ = cp.fifo.Close() // only read from
}

// Close ends all reading and leaves the FIFOs to the next collector.
func (c *Collector) Close() {
	c.mu.Lock()
	pipes := c.pipes
	c.pipes = map[string]*copier{}
	c.mu.Unlock()
	for _, cp := range pipes {
		cp.end()
	}
	c.wg.Wait()
}

// Listen makes the collector's socket, and replaces one that a killed collector has left.
func Listen(socket string) (net.Listener, error) {
	if conn, err := net.Dial("unix", socket); err == nil {
		_ = conn.Close() // it was only to see
		return nil, errdefs.AlreadyExistsf("log collector: one runs already on %s", socket)
	}
	_ = os.Remove(socket) // Listen tells
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for clients of the log collector: %w", err)
	}
	return l, nil
}
