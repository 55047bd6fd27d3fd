// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/isolation"
)

// loop is the supervisor. Everything happens on the goroutine that calls run.
type loop struct {
	journal journal
	log     hclog.Logger
	boot    string
	cgroups string // root of the tasks' cgroups; "" if there is none
	idle    time.Duration
	// groups are all cgroup hierarchies, for isolated tasks.
	groups *cgroup.Cgroups

	epoll, null int
	// lock and listener are shared with the keeper. keeper is a socket to the keeper.
	lock, listener, keeper int

	tasks map[string]*task
	// timed are the tasks that have a deadline. Each turn checks only these.
	timed map[*task]bool
	// starting are the isolated tasks that are being built on goroutines, which send
	// them to started and then write to wake.
	starting map[string]*building
	started  chan *building
	slots    chan struct{}
	wake     int
	fds      map[int]watched
	scratch  []byte
	// trash are cgroups that could not be removed yet because their last processes were
	// still ending.
	trash     []string
	idleSince time.Time
	// socketAt is the time of the next check of the socket's name.
	socketAt time.Time
	shutdown bool
	// orphaned means that the keeper is gone.
	orphaned bool
	moved
}

// moved records for one turn of the loop whether an output was emptied, and whether an
// output had more than its share.
type moved struct{ drained, flooded bool }

// watched says what a descriptor in the epoll set is: a task's pidfd (output is -1),
// the pidfd of process 1 of its namespace (outputInit), one of its outputs, a
// connection, or the socket to the keeper. The listener has the zero value.
type watched struct {
	task   *task
	output int
	conn   *conn
	wake   bool
	keeper bool // the socket to the keeper
}

// gather is the time for which the loop waits for more output.
const gather = time.Millisecond

// chunksPerTurn is the number of chunks that one output may move per turn, so that
// others are served too.
const chunksPerTurn = 4

func newLoop(dir string, inherited [3]int, idle time.Duration, log hclog.Logger) (*loop, error) {
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	l := &loop{
		journal: j, log: log, cgroups: cgroupRoot(), idle: idle,
		lock: inherited[0], listener: inherited[1], keeper: inherited[2],
		starting: map[string]*building{}, started: make(chan *building, maxStarting), slots: make(chan struct{}, maxBuilding),
		tasks: map[string]*task{}, timed: map[*task]bool{}, fds: map[int]watched{}, scratch: make([]byte, chunk),
	}
	if l.boot, err = bootID(); err != nil {
		return nil, err
	}
	// Tasks must not inherit them. An upgrade clears the flag.
	for _, fd := range inherited {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("prepare an inherited descriptor: %w", err)
		}
	}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll set: %w", err)
	}
	if l.groups, err = cgroup.FindCgroups(); err != nil {
		return nil, err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make an event descriptor: %w", err)
	}
	if err := l.watch(l.wake, unix.EPOLLIN, watched{wake: true}); err != nil {
		return nil, err
	}
	if l.null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	if err := l.watch(l.listener, unix.EPOLLIN, watched{}); err != nil {
		return nil, err
	}
	// No events are requested: EPOLLHUP is always reported.
	if err := l.watch(l.keeper, 0, watched{keeper: true}); err != nil {
		return nil, err
	}
	if err := l.adopt(); err != nil {
		return nil, err
	}
	// The cgroup of an ended task is needed only by its own supervisor, and only for
	// seconds. The sweep runs in the background.
	go l.groups.Sweep(time.Now().Add(-time.Hour), 1000)
	return l, nil
}

func (l *loop) watch(fd int, events uint32, w watched) error {
	err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("watch a descriptor: %w", err)
	}
	l.fds[fd] = w
	return nil
}

func (l *loop) unwatch(fd int) {
	if _, ok := l.fds[fd]; ok && fd >= 0 {
		delete(l.fds, fd)
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil) // the descriptor is registered
	}
}

// watchTask adds a running task's descriptors to the epoll set.
func (l *loop) watchTask(t *task) error {
	for i := range t.out {
		if t.out[i].fifo < 0 {
			continue
		}
		if err := l.watch(t.out[i].fifo, unix.EPOLLIN, watched{task: t, output: i}); err != nil {
			return err
		}
	}
	if i := t.isolated; i != nil && i.initFD >= 0 {
		if err := l.watch(i.initFD, unix.EPOLLIN, watched{task: t, output: outputInit}); err != nil {
			return err
		}
	}
	if t.pidfd < 0 {
		return nil
	}
	return l.watch(t.pidfd, unix.EPOLLIN, watched{task: t, output: -1})
}

// run serves until there is nothing to do for the idle time, or until a shutdown.
func (l *loop) run() error {
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(l.epoll, events, l.turn(time.Now()))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for events: %w", err)
		}
		l.drained, l.flooded = false, false
		for _, e := range events[:max(n, 0)] {
			l.handle(int(e.Fd), e.Events)
		}
		if l.drained && !l.flooded {
			// A task writes more slowly than we copy: wait for more output, so that a fast
			// writer causes few wake-ups. The pipe buffers it meanwhile.
			_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(gather)}, nil) // an interrupted sleep is fine
		}
		if l.orphaned && len(l.starting) == 0 && !l.shutdown {
			l.orphaned = false
			l.log.Error("the keeper died; this process becomes the keeper and starts a new supervisor")
			if err := l.becomeKeeper(); err != nil {
				l.log.Error("there is no keeper: exit codes are lost if this supervisor dies", "error", err)
			}
		}
		if (l.shutdown || l.idleFor(time.Now())) && len(l.trash) == 0 {
			return nil
		}
	}
}

func (l *loop) handle(fd int, events uint32) {
	w, ok := l.fds[fd]
	switch {
	case !ok: // an earlier event has closed it
	case w.wake:
		l.takeStarted()
	case w.keeper:
		l.unwatch(fd)
		l.orphaned = true
	case w.task != nil && w.output == outputInit:
		l.initEnded(w.task)
	case w.conn != nil:
		l.serve(w.conn, events)
	case w.task == nil:
		l.accept()
	case w.output >= 0:
		if w.task.out[w.output].pump(chunksPerTurn, l.scratch) {
			l.flooded = true
		} else {
			l.drained = true
		}
	default:
		l.ended(w.task)
	}
}

// turn does what is due and returns the milliseconds until the next deadline.
func (l *loop) turn(now time.Time) int {
	next := time.Time{}
	due := func(at time.Time) { next = earlier(next, at) }
	for t := range l.timed {
		at := l.turnTask(t, now)
		if at.IsZero() {
			delete(l.timed, t)
			continue
		}
		due(at)
	}
	if !now.Before(l.socketAt) {
		l.keepSocket()
		l.socketAt = now.Add(socketCheck)
	}
	due(l.socketAt)
	if l.emptyTrash(); len(l.trash) > 0 {
		due(now.Add(100 * time.Millisecond))
	}
	if !l.idleSince.IsZero() {
		due(l.idleSince.Add(l.idle))
	}
	return int(max(next.Sub(now).Milliseconds()+1, 0))
}

// turnTask does what is due for a task and returns its next deadline, or the zero
// time.
func (l *loop) turnTask(t *task, now time.Time) (next time.Time) {
	if t.exit == nil && !t.unknownAt.IsZero() {
		l.lookUp(t, now)
		next = now.Add(10 * time.Millisecond)
	}
	if i := t.isolated; i != nil && i.ending != nil && t.exit == nil {
		if !now.Before(i.giveUpAt) {
			l.log.Warn("a process of an ended task cannot be killed", "task", t.id)
			l.finish(t, *i.ending)
		}
		next = earlier(next, i.giveUpAt)
	}
	if t.killAt.IsZero() || t.exit != nil {
		return next
	}
	if !now.Before(t.killAt) {
		l.kill(t)
		// Repeat the kill, in case a process that forks constantly has escaped it.
		t.killAt = now.Add(time.Second)
	}
	return earlier(next, t.killAt)
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// socketCheck is the interval at which the socket's name is checked, in case a
// program has cleaned up the directory.
const socketCheck = 5 * time.Second

// keepSocket creates the socket again if its name is gone.
func (l *loop) keepSocket() {
	if unix.Access(l.journal.dir+"/socket", unix.F_OK) != unix.ENOENT {
		return
	}
	fd, err := listen(l.journal.dir)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		err = l.watch(fd, unix.EPOLLIN, watched{})
	}
	if err != nil {
		closeFD(fd)
		l.log.Error("the socket was removed and cannot be created again", "error", err)
		return
	}
	l.log.Warn("the socket was removed; created it again")
	l.unwatch(l.listener)
	closeFD(l.listener)
	l.listener = fd
}

// idleFor reports whether there has been neither a task nor a client for the idle
// time.
func (l *loop) idleFor(now time.Time) bool {
	if len(l.tasks) > 0 || len(l.starting) > 0 || l.hasClients() {
		l.idleSince = time.Time{}
		return false
	}
	if l.idleSince.IsZero() {
		l.idleSince = now
	}
	return now.Sub(l.idleSince) >= l.idle
}

// hasClients reports whether a client other than the keeper is connected. It checks
// all descriptors; without tasks they are few.
func (l *loop) hasClients() bool {
	for _, w := range l.fds {
		if w.conn != nil && !w.conn.keeper {
			return true
		}
	}
	return false
}

// removeCgroup removes a cgroup, immediately or when its last process has ended.
func (l *loop) removeCgroup(dir string) {
	l.trash = append(l.trash, dir)
	l.emptyTrash()
}

func (l *loop) emptyTrash() {
	left := l.trash[:0]
	for _, dir := range l.trash {
		if err := cgroup.RemoveTree(dir); err == unix.EBUSY {
			killCgroup(dir)
			left = append(left, dir)
		}
	}
	l.trash = left
}

// upgrade executes another binary in this process, which keeps its children and its
// socket, in another mount namespace if one is given. See request for the parameters. It
// returns only on error.
func (l *loop) upgrade(path, mounts string) error {
	if path == "" {
		return l.goOn("/proc/self/exe", mounts)
	}
	previous := l.binary()
	if err := writeWhole(l.binaryFile(), []byte(path)); err != nil {
		return err
	}
	err := l.goOn(path, mounts)
	_ = writeWhole(l.binaryFile(), []byte(previous)) // the error of the exec is returned
	return err
}

// goOn executes a supervisor in this process. It returns only on error.
func (l *loop) goOn(path, mounts string) error {
	run := func() error {
		return become(path, loopArgs(l.journal.dir, l.lock, l.listener, l.keeper), l.lock, l.listener, l.keeper)
	}
	err := error(nil)
	if mounts == "" {
		err = run()
	} else if ns, oerr := os.Open(mounts); oerr != nil {
		err = oerr
	} else {
		defer ns.Close()
		// A program runs on in the namespaces of the thread that executes it.
		err = isolation.WithinMounts(int(ns.Fd()), "", run)
	}
	return fmt.Errorf("run the new supervisor %s: %w", path, err)
}

// becomeKeeper turns this process, with its children and its socket, into the keeper
// of its tasks. Otherwise, if the keeper is gone and the supervisor dies too, the
// exit codes of its tasks are lost. It returns only on error.
func (l *loop) becomeKeeper() error {
	inherited := []int{l.lock, l.listener}
	for _, t := range l.tasks {
		for i := range t.out {
			if t.out[i].fifo >= 0 {
				inherited = append(inherited, t.out[i].fifo) // keeps the output until the new supervisor reads it
			}
		}
	}
	return fmt.Errorf("run the keeper: %w", become("/proc/self/exe", keeperArgs(l.journal.dir, l.lock, l.listener), inherited...))
}

// become executes another program in this process, which inherits the descriptors.
// It returns only on error.
func become(path string, args []string, inherited ...int) error {
	for _, fd := range inherited {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("pass on a descriptor: %w", err)
		}
	}
	err := syscall.Exec(path, args, os.Environ())
	for _, fd := range inherited {
		unix.CloseOnExec(fd)
	}
	return err
}

func (l *loop) binaryFile() string { return l.journal.dir + "/binary" }

func (l *loop) binary() string {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}
