// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/idle"
)

// hiddenArgument is the first argument of the supervisor's processes.
const hiddenArgument = "__drover-supervise"

// The roles, which are the second argument.
const (
	roleLaunch = "launch" // starts the keeper in the background and exits
	roleKeep   = "keep"
	roleLoop   = "loop"
	roleProbe  = "probe" // confirms that this binary can supervise
)

// idleEnv overrides the time for which a supervisor without tasks and clients keeps
// running.
const idleEnv = "DROVER_SUPERVISOR_IDLE"

const defaultIdle = time.Minute

// Main runs the process as a part of the supervisor if its arguments say so, and
// then does not return. Every program that calls Open must call Main first.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != hiddenArgument {
		return
	}
	os.Exit(role(os.Args[2], os.Args[3:]))
}

// resetIgnoredByLibc restores the default action of the two signals that C libraries
// reserve, if an ancestor ignored them. The Go runtime does not touch them, and
// ignored signals are inherited over exec.
func resetIgnoredByLibc() {
	type action struct{ handler, flags, restorer, mask uintptr } // the kernel's struct sigaction
	const ignore, maskBytes = 1, 8
	for sig := uintptr(32); sig <= 33; sig++ {
		var now, byDefault action
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), maskBytes, 0, 0)
		if errno != 0 || now.handler != ignore {
			continue
		}
		// If this fails, tasks ignore one signal, which nobody sends anyway.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, maskBytes, 0, 0)
	}
}

func role(name string, args []string) int {
	log := hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: os.Stderr, JSONFormat: true})
	if name == roleProbe {
		fmt.Println(protocolVersion)
		return 0
	}
	if len(args) == 0 {
		log.Error("the supervisor is started without a directory")
		return 2
	}
	// Tasks would inherit signals that our parent ignored. Signals with a handler are
	// reset by exec, so handle them here.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGPIPE, unix.SIGTERM)
	resetIgnoredByLibc()
	// Tasks would also inherit descriptors that an ancestor left open.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // since Linux 5.11; best effort
	if name != roleLaunch {
		time.AfterFunc(time.Second, idle.Release) // most of the program is used only by the start
	}
	var err error
	switch name {
	case roleLaunch:
		err = launch(args[0])
	case roleKeep:
		err = keep(args, log)
	case roleLoop:
		err = supervise(args, log)
	default:
		err = fmt.Errorf("unknown role %q", name)
	}
	if err != nil {
		log.Error("the "+name+" part of the supervisor ends", "error", err)
		return 1
	}
	return 0
}

// launch starts the keeper in a new session, as a child of init.
func launch(dir string) error {
	// If this fails, a supervisor within the plugin's limits is better than none.
	left := leavePluginGroup()
	j, err := openJournal(dir)
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(j.dir, "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	if st, err := logFile.Stat(); err == nil && st.Size() > 1<<20 {
		_ = logFile.Truncate(0) // an old log must not grow forever
	}
	if left != nil {
		fmt.Fprintln(logFile, left)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	// Both sleep most of the time: one thread for Go code and a small heap are enough.
	env := append(os.Environ(), "GOMAXPROCS=1", "GOGC=50")
	_, err = syscall.ForkExec("/proc/self/exe", []string{os.Args[0], hiddenArgument, roleKeep, dir}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{null.Fd(), null.Fd(), logFile.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	return nil
}

// socketName returns a name for the socket in dir that is short enough for a socket
// address, and a function to call when it is no longer needed.
func socketName(dir string) (string, func(), error) {
	path := filepath.Join(dir, "socket")
	if len(path) < 100 {
		return path, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open the supervisor's directory %s: %w", dir, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/socket", fd), func() { closeFD(fd) }, nil
}

// listen creates the socket. The caller must hold the lock, so an old socket may be
// replaced.
func listen(dir string) (int, error) {
	name, done, err := socketName(dir)
	if err != nil {
		return -1, err
	}
	defer done()
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return -1, fmt.Errorf("remove the old socket: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		closeFD(fd)
		return -1, fmt.Errorf("listen on the supervisor's socket in %s: %w", dir, err)
	}
	return fd, nil
}

// keeperArgs returns the arguments of a keeper that takes over lock and listener.
func keeperArgs(dir string, lock, listener int) []string {
	return []string{os.Args[0], hiddenArgument, roleKeep, dir, strconv.Itoa(lock), strconv.Itoa(listener)}
}

// descriptors parses the numbers of n inherited descriptors.
func descriptors(args []string, n int) ([]int, error) {
	if len(args) != n {
		return nil, fmt.Errorf("want %d descriptors, have %q", n, args)
	}
	fds := make([]int, n)
	for i, a := range args {
		fd, err := strconv.Atoi(a)
		if err != nil {
			return nil, fmt.Errorf("descriptor %q: %w", a, err)
		}
		fds[i] = fd
	}
	return fds, nil
}

func loopArgs(dir string, lock, listener, keeper int) []string {
	return []string{os.Args[0], hiddenArgument, roleLoop, dir, strconv.Itoa(lock), strconv.Itoa(listener), strconv.Itoa(keeper)}
}

// supervise runs the loop.
func supervise(args []string, log hclog.Logger) error {
	fds, err := descriptors(args[1:], 3)
	if err != nil {
		return err
	}
	idle := defaultIdle
	if d, err := time.ParseDuration(os.Getenv(idleEnv)); err == nil {
		idle = d
	}
	l, err := newLoop(args[0], [3]int(fds), idle, log)
	if err != nil {
		return err
	}
	return l.run()
}

// dial connects to the supervisor of dir.
func dial(dir string) (net.Conn, error) {
	name, done, err := socketName(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := net.DialTimeout("unix", name, 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connect to the supervisor in %s: %w", dir, err)
	}
	return c, nil
}

// Identity identifies the current file at path. A replaced binary has another
// identity.
func Identity(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano())
}
