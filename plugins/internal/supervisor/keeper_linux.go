// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/procfs"
)

// keeper is the supervisor's parent. It restarts the supervisor when it ends, and
// checks periodically that it answers.
type keeper struct {
	journal        journal
	log            hclog.Logger
	lock, listener int
	started        time.Time
	// pid is the supervisor's pid, or 0 if there is none. mu is held while it is
	// signalled, so that the pid is not reused.
	mu    sync.Mutex
	pid   int
	pause time.Duration // delay before the next start
	// held are the FIFOs by task key. holding is closed when no goroutine uses held.
	held    map[string][]int
	holding chan struct{}
}

// keep runs the keeper: it holds the directory's lock and socket, and runs a
// supervisor with them. The arguments are the directory and, if this process was the
// supervisor before, the descriptors of lock and socket.
func keep(args []string, log hclog.Logger) error {
	j, err := openJournal(args[0])
	if err != nil {
		return err
	}
	k := &keeper{journal: j, log: log, held: map[string][]int{}}
	if len(args) > 1 {
		err = k.takeOver(args[1:])
	} else if ours, lerr := k.claim(); lerr != nil || !ours {
		return lerr
	}
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of the tasks: %w", err)
	}
	if err := k.start(); err != nil {
		return err
	}
	go k.watch()
	return k.wait()
}

// claim locks the directory. It reports false if there is already a supervisor.
func (k *keeper) claim() (ours bool, err error) {
	k.lock, err = unix.Open(filepath.Join(k.journal.dir, "lock"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, fmt.Errorf("open the supervisor's lock: %w", err)
	}
	// The supervisor shares the lock, so it is free only when both are gone.
	if err := unix.Flock(k.lock, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return false, nil // there is a supervisor
	} else if err != nil {
		return false, fmt.Errorf("lock the supervisor's directory: %w", err)
	}
	leaveCgroup()
	k.listener, err = listen(k.journal.dir)
	return err == nil, err
}

// takeOver continues as the keeper after this process was the supervisor. The tasks
// are its children, and their FIFOs are open.
func (k *keeper) takeOver(args []string) error {
	fds, err := descriptors(args, 2)
	if err != nil {
		return err
	}
	k.lock, k.listener = fds[0], fds[1]
	fifos := filepath.Join(k.journal.dir, "fifo") + "/"
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("look for the log pipes of the tasks: %w", err)
	}
	for _, e := range open {
		path, err := os.Readlink("/proc/self/fd/" + e.Name())
		fd, nerr := strconv.Atoi(e.Name())
		if name, ok := strings.CutPrefix(path, fifos); err == nil && nerr == nil && ok {
			key := strings.TrimSuffix(name, filepath.Ext(name))
			k.held[key] = append(k.held[key], fd)
		}
	}
	return nil
}

// leaveCgroup moves this process out of the cgroup of the process that started it,
// so that a service manager that stops the agent does not kill it too.
func leaveCgroup() {
	root := cgroupRoot()
	if root == "" {
		return
	}
	dir := filepath.Join(root, "drover", "supervisor")
	if os.MkdirAll(dir, 0o755) == nil {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0) // best effort
	}
}

// wait reaps children until the supervisor ends for good.
func (k *keeper) wait() error {
	for {
		info, err := waitPeek(unix.P_ALL, 0, 0)
		if err != nil {
			return fmt.Errorf("wait for the supervisor: %w", err)
		}
		if info.pid != k.pid {
			k.inherit(info)
			continue
		}
		end := info.exit()
		k.mu.Lock()
		reap(info.pid)
		k.pid = 0
		k.mu.Unlock()
		<-k.holding
		if end == (Exit{}) {
			return k.close()
		}
		k.log.Error("the supervisor died; its tasks keep running, and a new supervisor adopts them", "exit_code", end.Code, "signal", end.Signal)
		if err := k.start(); err != nil {
			return err
		}
	}
}

// inherit reaps an orphan. If the orphan is a task, it stores the exit for the
// supervisor and kills the rest of its process group.
func (k *keeper) inherit(info sigchld) {
	if st, err := procfs.Read(info.pid); err == nil {
		marker := k.journal.marker(info.pid, st.Start)
		if _, err := os.Stat(marker); err == nil {
			_ = unix.Kill(-info.pid, unix.SIGKILL) // often no process is left
			if err := writeJSON(marker, info.exit()); err != nil {
				k.log.Error("the exit code of a task is lost", "pid", info.pid, "error", err)
			}
		}
	}
	reap(info.pid)
}

// start starts a supervisor.
func (k *keeper) start() error {
	if !k.started.IsZero() && time.Since(k.started) < 5*time.Second {
		// The previous one ended soon after its start, so wait before starting the next.
		time.Sleep(k.pause)
		k.pause = min(max(2*k.pause, 20*time.Millisecond), 2*time.Second)
	} else {
		k.pause = 0
	}
	k.started = time.Now()
	asks, err := askSockets()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{0, 1, 2, uintptr(k.lock), uintptr(k.listener), uintptr(asks[1])},
	}
	args := loopArgs(k.journal.dir, 3, 4, 5)
	pid, err := syscall.ForkExec(k.binary(), args, attr)
	if err != nil {
		pid, err = syscall.ForkExec("/proc/self/exe", args, attr)
	}
	closeFD(asks[1])
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	k.mu.Lock()
	k.pid = pid
	k.mu.Unlock()
	k.holding = make(chan struct{})
	go func() {
		defer close(k.holding)
		k.hold(asks[0])
	}()
	return nil
}

// binary returns the path of the binary that the last upgrade recorded.
func (k *keeper) binary() string {
	raw, err := os.ReadFile(filepath.Join(k.journal.dir, "binary"))
	if err != nil {
		return "/proc/self/exe"
	}
	return strings.TrimSpace(string(raw))
}

// close removes the socket, so that the next client starts a new pair immediately.
func (k *keeper) close() error {
	for _, name := range []string{"socket", "binary"} {
		if err := os.Remove(filepath.Join(k.journal.dir, name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("leave the supervisor's directory: %w", err)
		}
	}
	return nil
}
