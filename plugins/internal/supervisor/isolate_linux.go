// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// maxStarting is the number of isolated tasks that may be starting or waiting for
// their start. maxBuilding of them are built concurrently, on a thread each.
const (
	maxStarting = 4096
	maxBuilding = 4
)

// outputInit marks a descriptor that is the pidfd of process 1 of a task's pid
// namespace, see watched.
const outputInit = -2

// isolated holds the additional state of an isolated task.
type isolated struct {
	name  string // name of its cgroups
	group *cgroup.Group
	// init is process 1 of its pid namespace, or 0 if it runs in the machine's. When it
	// ends, all processes of the task are killed.
	init      int
	initStart uint64
	initFD    int // -1 after it has ended
	// ending is the main process's exit while other processes are still being killed.
	// giveUpAt is when the supervisor stops waiting for them.
	ending   *Exit
	giveUpAt time.Time
}

// endOfOthers is the time limit for killed processes of a task to disappear.
const endOfOthers = 10 * time.Second

// kill kills all processes of the task. i may be nil.
func (i *isolated) kill() {
	if i == nil {
		return
	}
	if i.initFD >= 0 {
		_ = unix.PidfdSendSignal(i.initFD, unix.SIGKILL, nil, 0) // an error means that it has ended
	}
	i.group.Kill()
}

func (i *isolated) oomKilled() bool { return i != nil && i.group.OOMKills() > 0 }

// adopt finds process 1 of an adopted task. i may be nil.
func (i *isolated) adopt() {
	if i == nil || i.init == 0 {
		return
	}
	if fd, err := openProcess(i.init, i.initStart); err == nil {
		i.initFD = fd
	}
}

// building is an isolated task that a goroutine builds and then passes to the loop.
type building struct {
	task  *task
	conn  *conn
	seq   uint64
	files [3]int
	err   error
	req   *request
	// unwanted means that it was destroyed meanwhile. The destroy request is answered
	// when it is gone.
	unwanted bool
	waiters  []waiter
}

// unwant requests that a task be destroyed as soon as it is built.
func (b *building) unwant(c *conn, req *request) error {
	if !req.Force {
		return errdefs.FailedPreconditionf("destroy task %q: it is being started; stop it first or use force", b.task.id)
	}
	b.unwanted = true
	b.waiters = append(b.waiters, waiter{conn: c, seq: req.Seq})
	return nil
}

// isolate starts an isolated task on a goroutine, since that takes milliseconds, and
// answers the request when it is done.
func (l *loop) isolate(c *conn, req *request) error {
	spec := req.Spec
	t, err := l.newTask(spec)
	if err != nil {
		return err
	}
	if spec.Sandbox == nil {
		return errdefs.InvalidArgumentf("start task %q isolated: the spec has no sandbox", spec.ID)
	}
	if len(l.starting) >= maxStarting {
		return errdefs.ResourceExhaustedf("start task %q: %d tasks are being started; try again later", spec.ID, len(l.starting))
	}
	b := &building{task: t, conn: c, seq: req.Seq, req: req, files: [3]int{l.null, l.null, l.null}}
	err = l.journal.writeSpec(t.key, spec)
	if err == nil {
		b.files, err = l.outputs(t, spec)
	}
	name, nameErr := groupName(t.key)
	if err = errors.Join(err, nameErr); err != nil {
		l.closeOutputs(b.files)
		l.release(t)
		return err
	}
	t.isolated = &isolated{name: name, group: l.groups.Open(name), initFD: -1}
	t.cgroup = t.isolated.group.Dir
	scratch := filepath.Join(l.journal.dir, "root")
	l.starting[t.id] = b
	go func() {
		l.slots <- struct{}{}
		if b.err = req.stale(); b.err == nil {
			b.err = l.build(t, req, name, scratch, b.files)
		}
		<-l.slots
		l.started <- b // the channel has room for all
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(l.wake, one) // a write fails only if the counter is full, which wakes the loop too
	}()
	return nil
}

func groupName(key string) (string, error) {
	var raw [6]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", fmt.Errorf("name a cgroup: %w", err)
	}
	return key + "." + hex.EncodeToString(raw[:]), nil
}

// build runs on a goroutine. It uses no state that changes except the task, which
// nobody else uses yet.
func (l *loop) build(t *task, req *request, group, scratch string, files [3]int) error {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return fmt.Errorf("make a directory to build on: %w", err)
	}
	spec := req.Spec
	config := *spec.Sandbox
	config.Scratch = scratch
	config.Hide = append([]string{l.journal.dir}, config.Hide...)
	g, err := l.groups.Make(group, config.Limits, config.Devices)
	if err != nil {
		return err
	}
	p := isolation.Process{Args: spec.Args, Env: spec.environ(), Files: files}
	if u := spec.User; u != nil {
		p.User = isolation.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	if _, err = isolation.Start(&config.Config, g.Paths(), p, l.hold(t, req)); err != nil {
		g.Kill()
		t.pidfd, t.isolated.initFD = -1, -1 // already closed
	}
	return err
}

// takeStarted takes over the tasks that were built.
func (l *loop) takeStarted() {
	var count [8]byte
	_, _ = unix.Read(l.wake, count[:]) // reading resets the counter
	for {
		select {
		case b := <-l.started:
			delete(l.starting, b.task.id)
			l.answerStart(b, l.takeOver(b))
			for _, w := range b.waiters {
				l.send(w.conn, &response{Seq: w.seq})
			}
		default:
			return
		}
	}
}

func (l *loop) answerStart(b *building, err error) {
	resp := &response{Seq: b.seq}
	if err == nil {
		resp.Status = b.task.status()
	} else {
		resp.fail(err)
	}
	l.send(b.conn, resp)
}

func (l *loop) takeOver(b *building) error {
	t := b.task
	l.closeOutputs(b.files)
	if b.err != nil {
		l.release(t)
		return startError(t.id, b.err)
	}
	err := b.req.stale() // the client has given up and reported the start as failed
	if b.unwanted {
		err = errdefs.Canceledf("it was destroyed while it was started")
	}
	if err == nil {
		err = l.watchTask(t)
	}
	if err != nil {
		l.endStart(t)
		l.release(t)
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("start task %q: %w", t.id, err))
	}
	l.over(t)
	l.tasks[t.id] = t
	return nil
}

// commandError is the error of a task whose command cannot be run.
func commandError(id string, err error) error {
	out := errdefs.InvalidArgumentf("start task %q: %w", id, err)
	if errors.Is(err, isolation.ErrNoCommand) {
		return errdefs.WithReason(out, "command_not_found")
	}
	return out
}

// startError classifies the error of a failed start, which decides whether the start
// is repeated.
func startError(id string, err error) error {
	var command *isolation.CommandError
	switch {
	case errdefs.ClassOf(err) != errdefs.Internal:
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("start task %q: %w", id, err))
	case errors.Is(err, isolation.ErrVanished), errors.Is(err, unix.ETIMEDOUT):
		return errdefs.Unavailablef("start task %q: %w; try again", id, err)
	case errors.As(err, &command) && errors.Is(err, unix.ETXTBSY):
		return errdefs.Unavailablef("start task %q: %w; the file is still being written, try again", id, err)
	case errors.As(err, &command):
		return commandError(id, err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOSPC):
		return errdefs.ResourceExhaustedf("start task %q: %w; free memory or raise the machine's limits", id, err)
	}
	return errdefs.FailedPreconditionf("start task %q: %w", id, err)
}

// mainEnded is called when a task's main process has ended and was reaped. An
// isolated task ends only when its other processes have ended too.
func (l *loop) mainEnded(t *task, e Exit) {
	i := t.isolated
	if i == nil || i.initFD < 0 {
		l.finish(t, e)
		return
	}
	l.unwatch(t.pidfd)
	closeFD(t.pidfd)
	t.pidfd, t.unknownAt = -1, time.Time{}
	i.ending, i.giveUpAt = &e, time.Now().Add(endOfOthers)
	l.timed[t] = true
	i.kill()
}

// initEnded is called when process 1 of a task's namespace has ended. All other
// processes in it have ended too, except possibly the main process, whose own pidfd
// reports its end.
func (l *loop) initEnded(t *task) {
	i := t.isolated
	l.unwatch(i.initFD)
	closeFD(i.initFD)
	i.initFD = -1
	if i.init != 0 {
		_, _ = unix.Wait4(i.init, nil, unix.WNOHANG, nil) // if the task was adopted, process 1 is the keeper's child
	}
	if i.ending != nil && t.exit == nil {
		l.finish(t, *i.ending)
	}
}

// discard releases the resources of an isolated task. i may be nil.
func (l *loop) discard(i *isolated) {
	if i == nil {
		return
	}
	if i.initFD >= 0 {
		i.kill()
		l.unwatch(i.initFD)
		closeFD(i.initFD)
		i.initFD = -1
	}
	for _, dir := range i.group.Paths() {
		l.removeCgroup(dir)
	}
}
