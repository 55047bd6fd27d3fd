// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/procfs"
)

// task is one task of the loop. Its environment, command and other data that the
// loop does not need are only in the journal.
type task struct {
	id, key   string
	plugin    string
	pid       int
	start     uint64 // start time, which with pid identifies the process
	pidfd     int    // -1 after the task has ended
	logDir    int
	out       [2]stream
	cgroup    string
	isolated  *isolated // nil for a task that is not isolated
	startedAt time.Time
	endedAt   time.Time
	exit      *Exit
	killAt    time.Time // when a stop turns into a kill; zero means never
	unknownAt time.Time // when the search for a lost exit code ends; zero while the task runs
	waiters   []waiter
}

func (t *task) status() *Status {
	s := &Status{
		ID: t.id, Plugin: t.plugin, PID: t.pid, StartedAt: t.startedAt, EndedAt: t.endedAt, Exit: t.exit, Cgroup: t.cgroup,
		DroppedLogBytes: t.out[0].dropped + t.out[1].dropped,
		Ending:          t.exit == nil && !t.unknownAt.IsZero(),
	}
	for i := range t.out {
		if o := &t.out[i]; o.failure != nil {
			s.LogError = fmt.Sprintf("write %s: %s", o.name(o.index), o.failure)
		}
	}
	if t.isolated != nil {
		s.Group = t.isolated.name
	}
	return s
}

func (t *task) record(boot string) record {
	r := record{
		Boot: boot, PID: t.pid, Start: t.start, StartedAt: t.startedAt, EndedAt: t.endedAt,
		Cgroup: t.cgroup, Exit: t.exit, Dropped: t.out[0].dropped + t.out[1].dropped,
	}
	if i := t.isolated; i != nil {
		r.Group, r.Init, r.InitStart = i.name, i.init, i.initStart
	}
	return r
}

// start starts a task. A failed start leaves nothing behind.
func (l *loop) start(req *request) (*task, error) {
	spec := req.Spec
	t, err := l.newTask(spec)
	if err != nil {
		return nil, err
	}
	// The spec is written first. A spec without a record is an unfinished start, which
	// the next supervisor undoes.
	err = l.journal.writeSpec(t.key, spec)
	if err == nil {
		err = l.spawn(t, req)
	}
	if err != nil {
		l.release(t)
		return nil, err
	}
	l.tasks[t.id] = t
	return t, nil
}

// newTask validates a spec.
func (l *loop) newTask(spec *Spec) (*task, error) {
	if spec == nil || spec.ID == "" || spec.Path == "" && spec.Sandbox == nil || len(spec.Args) == 0 {
		return nil, errdefs.InvalidArgumentf("start a task: the spec needs an id, a path and arguments")
	}
	if _, ok := l.tasks[spec.ID]; ok || l.starting[spec.ID] != nil {
		return nil, errdefs.AlreadyExistsf("start task %q: it exists already; destroy it first", spec.ID)
	}
	t := &task{id: spec.ID, plugin: spec.Plugin, key: l.journal.key(spec.ID), pidfd: -1, logDir: -1}
	t.out[0].fifo, t.out[0].file, t.out[1].fifo, t.out[1].file = -1, -1, -1, -1
	return t, nil
}

// outputs creates the log pipes of the task and returns its descriptors 0 to 2. The
// caller closes those that are not the loop's own, even on error.
func (l *loop) outputs(t *task, spec *Spec) (files [3]int, err error) {
	files = [3]int{l.null, l.null, l.null}
	if spec.Logs.Disabled {
		return files, nil
	}
	if err := l.openLogs(t, spec); err != nil {
		return files, err
	}
	for i := range t.out {
		fd, err := l.makeFIFO(t, i, spec.User)
		if err != nil {
			return files, err
		}
		files[i+1] = fd
	}
	return files, nil
}

func (l *loop) closeOutputs(files [3]int) {
	for _, fd := range files {
		if fd != l.null {
			closeFD(fd)
		}
	}
}

func (l *loop) spawn(t *task, req *request) error {
	files, err := l.outputs(t, req.Spec)
	defer l.closeOutputs(files)
	if err == nil {
		err = l.fork(t, req, files)
	}
	if err != nil {
		return err
	}
	if err = req.stale(); err == nil { // time may have passed since the request was checked
		err = l.watchTask(t)
	}
	if err != nil {
		l.endStart(t)
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("start task %q: %w", t.id, err))
	}
	l.over(t)
	return nil
}

// hold returns the Hold of a task's start. Its Write may run on another goroutine:
// it changes only the task, which nobody else uses yet.
func (l *loop) hold(t *task, req *request) isolation.Hold {
	return isolation.Hold{Report: l.journal.report(t.key), Write: func(s isolation.Started) error {
		t.pid, t.pidfd = s.PID, s.PIDFD
		if i := t.isolated; i != nil {
			i.init, i.initFD = s.Init, s.InitFD
		}
		if err := req.stale(); err != nil {
			return err // the client has given up
		}
		err := place(t.pid, req.Spec)
		if err == nil {
			err = l.enlist(t)
		}
		if err != nil {
			return errdefs.FailedPreconditionf("record a new process: %w", err)
		}
		return nil
	}}
}

// enlist records a new process. If this supervisor is killed afterwards, the next
// one reads from the report of the start whether the process became the task.
func (l *loop) enlist(t *task) error {
	st, err := procfs.Read(t.pid)
	if err != nil {
		return err
	}
	t.start, t.startedAt = st.Start, time.Now()
	if i := t.isolated; i != nil && i.init != 0 {
		if st, err := procfs.Read(i.init); err == nil {
			i.initStart = st.Start
		}
	}
	err = writeWhole(l.journal.marker(t.pid, t.start), nil)
	if err == nil {
		err = writeJSON(l.journal.run(t.key), t.record(l.boot))
	}
	if err == nil && t.out[0].fifo >= 0 {
		l.askToHold(t)
	}
	return err
}

// over removes the report of a start that has succeeded. If that fails, the leftover
// report only says that the task has run.
func (l *loop) over(t *task) { _ = os.Remove(l.journal.report(t.key)) }

// endStart kills and reaps a task whose start is given up.
func (l *loop) endStart(t *task) {
	l.kill(t)
	reap(t.pid)
	if t.isolated != nil && t.isolated.init != 0 {
		reap(t.isolated.init)
	}
}

// openLogs opens a task's log directory and current log files.
func (l *loop) openLogs(t *task, spec *Spec) error {
	dir, err := openLogDir(spec.Logs)
	if err != nil {
		return errdefs.FailedPreconditionf("start task %q: %w", t.id, err)
	}
	t.logDir = dir
	t.out[0] = openStream(dir, spec.Logs.Stdout, spec.Logs)
	t.out[1] = openStream(dir, spec.Logs.Stderr, spec.Logs)
	return nil
}

// makeFIFO creates the FIFO of an output, opens the loop's end and returns the
// task's end. The task's end is open for reading too: see the package documentation.
func (l *loop) makeFIFO(t *task, i int, user *User) (int, error) {
	path := l.journal.fifo(t.key, i+1)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return -1, fmt.Errorf("make the log pipe of task %q: %w", t.id, err)
	}
	if user != nil && int(user.UID) != os.Geteuid() {
		// so that the task can open /dev/stdout again
		if err := unix.Lchown(path, int(user.UID), int(user.GID)); err != nil {
			return -1, fmt.Errorf("make the log pipe of task %q: %w", t.id, err)
		}
	}
	var err error
	if t.out[i].fifo, err = openFIFO(path); err != nil {
		return -1, fmt.Errorf("open the log pipe of task %q: %w", t.id, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the log pipe of task %q: %w", t.id, err)
	}
	return fd, nil
}

func openFIFO(path string) (int, error) {
	return unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// kill kills a task and all its processes.
func (l *loop) kill(t *task) {
	l.signalGroup(t, unix.SIGKILL)
	killCgroup(t.cgroup)
	t.isolated.kill()
}

// signalGroup signals the task's process group. As long as the task's pidfd accepts
// signals, its pid, which is also the group's id, has not been reused.
func (l *loop) signalGroup(t *task, sig unix.Signal) {
	if t.pidfd >= 0 && unix.PidfdSendSignal(t.pidfd, 0, nil, 0) == nil {
		_ = unix.Kill(-t.pid, sig) // an error means that the group has ended
	}
}

// ended is called when a task's pidfd reports that its process has ended.
func (l *loop) ended(t *task) {
	info, err := waitPeek(unix.P_PIDFD, t.pidfd, unix.WNOHANG)
	if err == nil && info.pid == 0 {
		return
	}
	if err == nil {
		// The zombie keeps the pid in use, so the group is still the task's.
		_ = unix.Kill(-t.pid, unix.SIGKILL)
		e := info.exit()
		if t.isolated == nil {
			l.finish(t, e)
			reap(t.pid)
			return
		}
		// Process 1 cannot end before the zombies of its namespace are reaped. Until it has
		// ended, the journal has no exit of the task, and a supervisor that takes over would
		// find no process. So the exit is written to the marker first.
		if err := writeJSON(l.journal.marker(t.pid, t.start), e); err != nil {
			l.log.Error("cannot write the exit of a task to the journal yet", "task", t.id, "error", err)
		}
		reap(t.pid)
		l.mainEnded(t, e)
		return
	}
	// It was another supervisor's child, so the process that inherited it reaps it.
	l.unwatch(t.pidfd)
	killCgroup(t.cgroup)
	t.unknownAt = time.Now().Add(exitLookup)
	l.timed[t] = true
	l.lookUp(t, time.Now())
}

// exitLookup is the time limit for finding the exit code of an adopted task.
const exitLookup = 3 * time.Second

// lookUp looks for the exit of an adopted task: in the journal, where the keeper
// writes it, and then in the kernel.
func (l *loop) lookUp(t *task, now time.Time) {
	e, ok := l.journal.markedExit(t.pid, t.start)
	if !ok {
		e, ok = zombieExit(t.pid, t.start)
	}
	if !ok {
		e, ok = pidfdExit(t.pidfd)
	}
	if !ok && now.Before(t.unknownAt) {
		return
	}
	if !ok {
		e = Exit{Code: -1, Unknown: "the supervisor and its keeper were killed while the task ran, and this kernel reports the exit code only to the parent"}
	}
	l.mainEnded(t, e)
}

// finish records a task's exit and answers those who wait for it.
func (l *loop) finish(t *task, e Exit) {
	killCgroup(t.cgroup)
	t.isolated.kill()
	// The code may also come from a shell whose child was killed.
	e.OOM = e.Code == 128+int(unix.SIGKILL) && (oomKilled(t.cgroup) || t.isolated.oomKilled())
	for i := range t.out {
		if t.out[i].fifo >= 0 {
			t.out[i].pump(drainChunks, l.scratch)
		}
	}
	l.unwatch(t.pidfd)
	closeFD(t.pidfd)
	t.pidfd, t.killAt, t.unknownAt = -1, time.Time{}, time.Time{}
	t.exit, t.endedAt = &e, time.Now()
	if err := writeJSON(l.journal.run(t.key), t.record(l.boot)); err != nil {
		l.log.Error("cannot write the exit of a task to the journal", "task", t.id, "error", err)
	}
	l.tell(t)
}

// drainChunks is the number of chunks read of an ended task. It is more than a pipe
// can hold.
const drainChunks = 16

// release frees all resources of a task. Its log files stay.
func (l *loop) release(t *task) {
	for i := range t.out {
		if t.out[i].fifo >= 0 {
			t.out[i].pump(drainChunks, l.scratch)
			l.unwatch(t.out[i].fifo)
		}
		t.out[i].close()
	}
	l.unwatch(t.pidfd)
	closeFD(t.pidfd)
	closeFD(t.logDir)
	t.pidfd, t.logDir = -1, -1
	if t.cgroup != "" {
		l.removeCgroup(t.cgroup)
	}
	l.discard(t.isolated)
	l.dropHeld(t.key)
	l.journal.forget(t.key, t.pid, t.start)
	delete(l.tasks, t.id)
	delete(l.timed, t)
}
