// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"encoding/json"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// conn is a client's connection.
type conn struct {
	fd      int
	in, out []byte
	closed  bool
	// full means that the client does not read, so the loop stops writing until it does.
	full bool
	// gone means that the client has closed its end and waits for no answer.
	gone bool
	// keeper means that the client is our keeper, which only checks that we answer.
	keeper bool
}

// waiter is a request that is answered when a task has ended.
type waiter struct {
	conn    *conn
	seq     uint64
	destroy bool
}

func (l *loop) accept() {
	for {
		fd, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return // no connection is left, or the client is gone; the next event tries again
		}
		// The directory's mode already restricts access; this is a second check.
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || (int(cred.Uid) != os.Geteuid() && cred.Uid != 0) {
			closeFD(fd)
			continue
		}
		if l.watch(fd, unix.EPOLLIN, watched{conn: &conn{fd: fd, keeper: int(cred.Pid) == os.Getppid()}}) != nil {
			closeFD(fd)
		}
	}
}

func (l *loop) hangUp(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	l.unwatch(c.fd)
	closeFD(c.fd)
	for _, t := range l.tasks {
		left := t.waiters[:0]
		for _, w := range t.waiters {
			if w.conn != c {
				left = append(left, w)
			} else if w.destroy {
				// The client is gone, but its request to destroy the task remains.
				left = append(left, waiter{destroy: true})
			}
		}
		t.waiters = left
	}
}

func (l *loop) serve(c *conn, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		l.flush(c)
	}
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 || c.closed {
		return
	}
	c.gone = c.gone || events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
	n, err := unix.Read(c.fd, l.scratch)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil || n == 0 {
		l.hangUp(c)
		return
	}
	c.in = append(c.in, l.scratch[:n]...)
	for !c.closed {
		body, rest, err := nextFrame(c.in)
		if err != nil {
			l.log.Warn("a client sent an invalid message; closing its connection", "error", err)
			l.hangUp(c)
			return
		}
		if body == nil {
			break
		}
		l.dispatch(c, body)
		c.in = rest
	}
	if len(c.in) == 0 {
		c.in = nil // release the large buffer that a start needed
	}
}

func (l *loop) dispatch(c *conn, body []byte) {
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		l.log.Warn("a client sent an invalid message; closing its connection", "error", err)
		l.hangUp(c)
		return
	}
	resp, err := l.answer(c, &req)
	if resp == nil && err == nil {
		return // answered later
	}
	if resp == nil {
		resp = &response{}
	}
	resp.Seq = req.Seq
	if err != nil {
		resp.fail(err)
	}
	l.send(c, resp)
}

// answer carries out a request. It returns neither an answer nor an error if a
// waiter will be answered later.
func (l *loop) answer(c *conn, req *request) (*response, error) {
	if err := req.stale(); err != nil {
		return nil, err
	}
	if c.gone && (req.Op == opStart || req.Op == opIsolate) {
		return nil, errdefs.Canceledf("start a task: the client has disconnected")
	}
	switch req.Op {
	case opHello:
		return &response{Hello: &Hello{
			Version: protocolVersion, PID: os.Getpid(), Keeper: os.Getppid(), Binary: Identity("/proc/self/exe"), Mounts: mounts(),
		}}, nil
	case opStart, opStartSecret:
		t, err := l.start(req)
		if err != nil {
			return nil, err
		}
		return &response{Status: t.status()}, nil
	case opIsolate, opIsolateSecret:
		return nil, l.isolate(c, req)
	case opList:
		list := make([]Status, 0, len(l.tasks))
		for _, t := range l.tasks {
			list = append(list, *t.status())
		}
		for id, b := range l.starting { // tasks that have no process yet
			list = append(list, Status{ID: id, Plugin: b.task.plugin})
		}
		return &response{List: list}, nil
	case opUpgrade:
		// The client's connection ends, and it asks the new binary for its identity.
		return nil, l.upgrade(req.Path, req.Mounts)
	case opShutdown:
		if len(l.tasks)+len(l.starting) > 0 {
			return nil, errdefs.FailedPreconditionf("shut the supervisor down: it has %d tasks; destroy them first", len(l.tasks)+len(l.starting))
		}
		l.shutdown = true
		return &response{}, nil
	}
	t, ok := l.tasks[req.ID]
	if !ok {
		if b := l.starting[req.ID]; b != nil && req.Op == opDestroy {
			return nil, b.unwant(c, req)
		}
		if req.Op == opDestroy {
			return &response{}, nil
		}
		return nil, errdefs.NotFoundf("task %q is unknown to the supervisor; it was destroyed, or was never started on this node", req.ID)
	}
	return l.answerTask(c, t, req)
}

func (l *loop) answerTask(c *conn, t *task, req *request) (*response, error) {
	switch req.Op {
	case opInspect:
		return &response{Status: t.status()}, nil
	case opSpec:
		var spec Spec
		if err := readJSON(l.journal.spec(t.key), &spec); err != nil {
			return nil, err
		}
		spec.Secrets = secretsOf(t.pid, spec.Secrets)
		return &response{Spec: &spec, Status: t.status()}, nil
	case opWait:
		if t.exit != nil {
			return &response{Status: t.status()}, nil
		}
		t.waiters = append(t.waiters, waiter{conn: c, seq: req.Seq})
		return nil, nil
	case opSignal:
		if t.exit != nil {
			return nil, errdefs.FailedPreconditionf("signal task %q: it has ended", t.id)
		}
		// If it ends at this moment there is nothing to signal.
		_ = unix.PidfdSendSignal(t.pidfd, unix.Signal(req.Signal), nil, 0)
		return &response{}, nil
	case opStop:
		return l.stop(c, t, req), nil
	case opDestroy:
		return l.destroy(c, t, req)
	}
	return nil, errdefs.Unimplementedf("the supervisor does not know the request %q; upgrade it", req.Op)
}

func (l *loop) stop(c *conn, t *task, req *request) *response {
	if t.exit != nil {
		return &response{Status: t.status()}
	}
	at := time.Now().Add(time.Duration(req.TimeoutMS) * time.Millisecond)
	if t.killAt.IsZero() || at.Before(t.killAt) {
		t.killAt = at // a later stop can only shorten the time
	}
	l.timed[t] = true
	l.signalGroup(t, unix.Signal(req.Signal))
	t.waiters = append(t.waiters, waiter{conn: c, seq: req.Seq})
	return nil
}

func (l *loop) destroy(c *conn, t *task, req *request) (*response, error) {
	if t.exit != nil {
		l.release(t)
		return &response{}, nil
	}
	if !req.Force {
		return nil, errdefs.FailedPreconditionf("destroy task %q: it still runs; stop it first or use force", t.id)
	}
	l.kill(t)
	t.killAt = time.Now().Add(time.Second)
	l.timed[t] = true
	t.waiters = append(t.waiters, waiter{conn: c, seq: req.Seq, destroy: true})
	return nil, nil
}

// tell answers all clients that wait for the end of a task.
func (l *loop) tell(t *task) {
	destroy := false
	waiters := t.waiters
	t.waiters = nil
	for _, w := range waiters {
		destroy = destroy || w.destroy
		if w.conn != nil {
			l.send(w.conn, &response{Seq: w.seq, Status: t.status()})
		}
	}
	if destroy {
		l.release(t)
	}
}

// send queues an answer and writes as much as the client accepts.
func (l *loop) send(c *conn, resp *response) {
	if c.closed {
		return
	}
	frame, err := encodeFrame(resp)
	if err != nil {
		l.log.Error("cannot answer a client", "error", err)
		l.hangUp(c)
		return
	}
	c.out = append(c.out, frame...)
	l.flush(c)
}

func (l *loop) flush(c *conn) {
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			l.hangUp(c)
			return
		}
		c.out = c.out[n:]
	}
	if len(c.out) == 0 {
		c.out = nil
	}
	if full := len(c.out) > 0; full != c.full {
		c.full = full
		events := uint32(unix.EPOLLIN)
		if full {
			events |= unix.EPOLLOUT
		}
		// The descriptor is registered, so this cannot fail.
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)})
	}
}
