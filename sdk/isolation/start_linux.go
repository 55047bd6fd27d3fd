// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/osthread"
)

// Process is a process that runs in a sandbox.
type Process struct {
	Args []string // argv, starting with the program's name
	Env  []string
	User User
	// Files are the descriptors of its standard input, output and error.
	Files [3]int
	// Terminal makes Files[0] its controlling terminal.
	Terminal bool
}

// Started is a running task. The caller that started it owns the descriptors.
type Started struct {
	PID, PIDFD int
	// Init is process 1 of the task's pid namespace. When it ends, all processes of the
	// task are killed. Init and InitFD are 0 and -1 if the task runs in the machine's
	// pid namespace or is process 1 itself.
	Init, InitFD int
}

// stepTimeout limits each step that a new process reports.
const stepTimeout = 10_000 // milliseconds

// Start starts an isolated process, which is held until hold.Write has returned. From its
// first instruction on it is in the given cgroups, and it sees no others. cgroups are
// directories of existing cgroups, at most one of them of version 2. A failed start leaves
// no process behind.
func Start(cfg *Config, cgroups []string, p Process, hold Hold) (Started, error) {
	s := Started{PIDFD: -1, InitFD: -1}
	// The building thread cannot see the machine's files at that point.
	g, err := makeGate(hold.Report, func(s Started) error {
		written := make(chan error, 1)
		go func() { written <- hold.record(s) }()
		return <-written
	})
	if err == nil {
		err = osthread.Do(func() error { return start(cfg, cgroups, p, g, &s) })
		g.close()
	}
	return s.unless(err)
}

// unless returns what was started or, if err is not nil, kills it.
func (s *Started) unless(err error) (Started, error) {
	if err != nil {
		s.abandon()
		return Started{PIDFD: -1, InitFD: -1}, err
	}
	return *s, nil
}

// abandon kills what a failed start has left behind.
func (s *Started) abandon() {
	end(s.PID)
	end(s.Init)
	closeFD(s.PIDFD)
	closeFD(s.InitFD)
}

func start(cfg *Config, cgroups []string, p Process, g *gate, s *Started) error {
	groups, err := openGroups(cgroups)
	if err != nil {
		return err
	}
	defer groups.close()
	cgroup := groups.unified
	if err := leave(cfg); err != nil {
		return err
	}
	t := &tree{cfg: cfg}
	defer t.close()
	if err := t.build(groups); err != nil {
		return err
	}
	if err := groups.enter(); err != nil {
		return err
	}
	// From here on the machine's cgroups are not visible.
	var first *firstProcess
	if cfg.First {
		if first, err = startFirst(t.root, cgroup, p, g, s); err != nil {
			return err
		}
		defer first.close()
	} else if err := mountProc(cfg, t.root, cgroup, s); err != nil {
		return err
	}
	if err := t.proc(); err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	command, err := lookUp(cfg.Command, p.Env)
	if err == nil {
		err = present(cfg.Needs)
	}
	if err != nil {
		return err
	}
	if first != nil {
		return first.become(cfg, command, p)
	}
	return launchHeld(cfg, command, cgroup, p, g, s)
}

// leave moves the thread to new namespaces. A new pid namespace applies to its
// children only.
func leave(cfg *Config) error {
	flags := unix.CLONE_FS | unix.CLONE_NEWNS
	if !cfg.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	if !cfg.HostIPC {
		flags |= unix.CLONE_NEWIPC
	}
	if cfg.Hostname != "" {
		flags |= unix.CLONE_NEWUTS
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("make the task's namespaces: %w; the agent must be root, with CAP_SYS_ADMIN", err)
	}
	unix.Umask(0o022)
	if cfg.Hostname != "" {
		if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
			return fmt.Errorf("set the task's hostname %q: %w", cfg.Hostname, err)
		}
	}
	return joinNetwork(cfg.NetworkNS)
}

// joinNetwork moves the thread to the network namespace of a file. It does nothing
// if file is empty.
func joinNetwork(file string) error {
	if file == "" {
		return nil
	}
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Setns(fd, unix.CLONE_NEWNET)
		closeFD(fd)
	}
	if err != nil {
		return fmt.Errorf("join the network namespace %s: %w", file, err)
	}
	return nil
}

const procFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountProc mounts /proc. In a new pid namespace it starts process 1 to do this,
// because a proc mount shows the pid namespace of the process that mounts it.
func mountProc(cfg *Config, root string, cgroup int, s *Started) error {
	place := filepath.Join(root, "proc")
	if cfg.HostPID {
		if err := unix.Mount("proc", place, "proc", procFlags, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
		return nil
	}
	const nobody = 65534
	var p program
	proc := p.string("proc")
	p.try("name process 1", unix.SYS_PRCTL, unix.PR_SET_NAME, p.string("drover-init"))
	p.add("mount /proc", unix.SYS_MOUNT, proc, p.string(place), proc, procFlags, 0)
	// struct sigaction, which begins with the handler.
	ignore := p.words(1, 0, 0, 0)
	p.add("ignore SIGCHLD", unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), ignore, 0, 8)
	p.add("leave all groups", unix.SYS_SETGROUPS, 0, 0)
	p.add("become nobody", unix.SYS_SETRESGID, nobody, nobody, nobody)
	p.add("become nobody", unix.SYS_SETRESUID, nobody, nobody, nobody)
	p.add("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	p.add("close the report", unix.SYS_CLOSE, reportFD)
	p.append(modeRepeat, "wait", unix.SYS_PPOLL, []uintptr{0, 0, 0, 0})
	file, err := p.file("drover-init")
	if err != nil {
		return err
	}
	defer closeFD(file)
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer closeFD(null)
	s.Init, s.InitFD, err = p.run(file, []string{"drover-init"}, cgroup, [3]int{null, null, null}, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return fmt.Errorf("start process 1 of the task: %w", err)
	}
	return nil
}

// run forks a process that executes the program, and waits until the program has
// ended or has become another one.
func (p *program) run(file int, args []string, cgroup int, files [3]int, attr *syscall.SysProcAttr) (pid, pidfd int, err error) {
	pid, pidfd, report, err := p.fork(file, args, cgroup, files[:], attr)
	if err != nil {
		return 0, -1, err
	}
	closeFD(report)
	return pid, pidfd, nil
}

// fork is run for a program that reports more than once. The caller reads the reports.
// Files after the first three get descriptors after the descriptor of the report.
func (p *program) fork(file int, args []string, cgroup int, files []int, attr *syscall.SysProcAttr) (pid, pidfd, reported int, err error) {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return 0, -1, -1, fmt.Errorf("make a pipe: %w", err)
	}
	pid, pidfd, err = spawn(file, args, cgroup, slices.Insert(slices.Clone(files), 3, report[1]), attr)
	closeFD(report[1])
	if err == nil {
		err = p.await(report[0], stepTimeout)
	}
	if err != nil {
		end(pid)
		closeFD(pidfd)
		closeFD(report[0])
		return 0, -1, -1, err
	}
	return pid, pidfd, report[0], nil
}

// spawn forks a process that runs a file with the given descriptors.
//
// Before it executes the file, syscall.ForkExec moves a pipe and some of the descriptors to
// the numbers after the greatest one, and so may replace the file, which it executes by its
// number. Therefore one of the descriptors is greater than the file's.
func spawn(file int, args []string, cgroup int, files []int, attr *syscall.SysProcAttr) (pid, pidfd int, err error) {
	greater, err := unix.FcntlInt(uintptr(files[0]), unix.F_DUPFD_CLOEXEC, file+1)
	if err != nil {
		return 0, -1, fmt.Errorf("start a process: copy a descriptor: %w", err)
	}
	defer closeFD(greater)
	pidfd = -1
	attr.PidFD = &pidfd
	attr.UseCgroupFD, attr.CgroupFD = cgroup >= 0, cgroup
	all := []uintptr{uintptr(greater)}
	for _, fd := range files[1:] {
		all = append(all, uintptr(fd))
	}
	pid, err = syscall.ForkExec(procFD(file), args, &syscall.ProcAttr{Files: all, Sys: attr})
	if err != nil {
		return 0, -1, fmt.Errorf("start a process: %w", err)
	}
	if pidfd < 0 {
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			end(pid)
			return 0, -1, fmt.Errorf("open a process's pidfd (Linux 5.4 or later is needed): %w", err)
		}
	}
	return pid, pidfd, nil
}

// end kills and reaps a child of the caller. It does nothing if pid is 0.
func end(pid int) {
	if pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil) // an error means that it was already reaped
	}
}
