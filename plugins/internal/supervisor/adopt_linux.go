// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/procfs"
)

// adopt takes over the tasks in the journal: the tasks of a supervisor that died, or our
// own from before an upgrade, which are still our children. If one record cannot be read,
// the other tasks are still adopted.
func (l *loop) adopt() error {
	keys, err := l.journal.keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		var spec Spec
		if err := readJSON(l.journal.spec(key), &spec); err != nil {
			l.log.Error("a task's spec is lost; its processes, if any, are left alone", "key", key, "error", err)
			continue
		}
		var rec record
		err := readJSON(l.journal.run(key), &rec)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			l.log.Error("a task's record is lost; its processes, if any, are left alone", "task", spec.ID, "error", err)
			continue
		}
		if err != nil || !l.began(key, &rec) {
			l.undo(key, &rec)
			continue
		}
		l.adoptTask(key, &spec, &rec)
		_ = os.Remove(l.journal.report(key)) // a leftover report only says that the task has run
	}
	return nil
}

// settle is the time limit for a process whose supervisor was killed to become its task
// or to end. Both usually take microseconds.
const settle = 2 * time.Second

// began reports whether a recorded task may have run. It has not if the supervisor died
// before it opened the gate of the task's process, or if the command could not be run.
func (l *loop) began(key string, rec *record) bool {
	began, err := isolation.Began(l.journal.report(key), settle)
	if errors.Is(err, isolation.ErrUndecided) && rec.Boot == l.boot {
		// The process may be stopped. Once it is dead, its report is final.
		l.log.Warn("a new process neither runs nor ends; it is killed", "pid", rec.PID)
		if fd, err := openProcess(rec.PID, rec.Start); err == nil {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that it has ended
			closeFD(fd)
		}
		began, err = isolation.Began(l.journal.report(key), settle)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.log.Error("it is unknown whether a task has run; it is treated as if it has", "key", key, "error", err)
	}
	return began || err != nil
}

// undo removes what an unanswered start has left behind. The client will repeat the
// start. The process has not passed its gate, or runs without one (see forkFree).
func (l *loop) undo(key string, rec *record) {
	for _, pid := range holders(l.journal.fifo(key, 1)) {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	for _, name := range l.groups.Find(key + ".") {
		group := l.groups.Open(name)
		group.Kill()
		for _, dir := range group.Paths() {
			l.removeCgroup(dir)
		}
	}
	if rec.PID != 0 && rec.Boot == l.boot {
		// The keeper looks for the marker when it reaps the process.
		awaitReaped(rec.PID, rec.Start, settle)
	}
	l.dropHeld(key)
	l.journal.forget(key, rec.PID, rec.Start)
}

// awaitReaped waits until an ending process is reaped. After an upgrade it is a child
// of this process.
func awaitReaped(pid int, start uint64, patience time.Duration) {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) {
		st, err := procfs.Read(pid)
		if err != nil || st.Start != start {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // fails if the process is the child of another process
	}
}

// holders returns the session leaders whose standard output is the given FIFO.
func holders(fifo string) []int {
	var pids []int
	for _, pid := range procfs.PIDs() {
		out, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/1")
		if err != nil || out != fifo {
			continue
		}
		if st, err := procfs.Read(pid); err == nil && st.Session == pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (l *loop) adoptTask(key string, spec *Spec, rec *record) {
	t := &task{
		id: spec.ID, plugin: spec.Plugin, key: key, pid: rec.PID, start: rec.Start, pidfd: -1, logDir: -1,
		cgroup: rec.Cgroup, startedAt: rec.StartedAt, endedAt: rec.EndedAt, exit: rec.Exit,
	}
	t.out[0].fifo, t.out[0].file, t.out[1].fifo, t.out[1].file = -1, -1, -1, -1
	l.tasks[t.id] = t
	if rec.Group != "" {
		t.isolated = &isolated{name: rec.Group, group: l.groups.Open(rec.Group), init: rec.Init, initStart: rec.InitStart, initFD: -1}
	}
	if rec.Boot != l.boot {
		if t.exit == nil {
			l.finish(t, Exit{Code: -1, Unknown: "the machine was restarted while the task ran"})
		}
		return
	}
	if !spec.Logs.Disabled {
		l.adoptLogs(t, spec)
		l.askToHold(t) // the keeper may be a new one
	}
	t.out[0].dropped += rec.Dropped
	if t.exit == nil {
		fd, err := openProcess(t.pid, t.start)
		if err != nil {
			// It ended while there was no supervisor, so only the keeper can know its exit code.
			t.unknownAt = time.Now().Add(exitLookup)
			l.timed[t] = true
		}
		t.pidfd = fd
		t.isolated.adopt()
	}
	if err := l.watchTask(t); err != nil {
		l.log.Error("cannot watch an adopted task", "task", t.id, "error", err)
	}
}

// adoptLogs opens the pipes and log files of an adopted task. If that fails the task
// is adopted without logs.
func (l *loop) adoptLogs(t *task, spec *Spec) {
	if err := l.openLogs(t, spec); err != nil {
		l.log.Error("an adopted task's logs are lost", "task", t.id, "error", err)
		t.out[0] = stream{fifo: -1, file: -1, dir: -1, keep: 1}
		t.out[1] = t.out[0]
	}
	for i := range t.out {
		fd, err := openFIFO(l.journal.fifo(t.key, i+1))
		if err != nil {
			l.log.Error("an adopted task's log pipe is lost", "task", t.id, "error", err)
			continue
		}
		t.out[i].fifo = fd
	}
}
