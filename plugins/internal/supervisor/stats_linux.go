// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/procfs"
)

// refresh is the number of samples after which a process is read even if it has not
// run, because the memory of a sleeping process may change too.
const refresh = 30

// Sampler measures tasks repeatedly. Most processes sleep most of the time, and
// reading a process's CPU clock costs a fiftieth of reading its state. So it reads
// the state only of processes that have run since the last sample. It is not safe
// for concurrent use.
type Sampler struct {
	pass   int
	procs  map[int]*process
	tasks  map[string]*measured
	groups *cgroup.Cgroups // nil until an isolated task is measured
}

// process is the last known state of a process.
type process struct {
	procfs.Process
	clock int64 // CPU time in nanoseconds
	io    *IO   // nil if it may not be read, or was not yet
	ours  bool  // it belongs to a task
	ran   bool  // it ran since the last sample
	seen  int   // number of the last pass that found it
}

// measured is the last known state of a task.
type measured struct {
	usage Usage
	seen  int
}

// NewSampler returns a sampler.
func NewSampler() *Sampler {
	return &Sampler{procs: map[int]*process{}, tasks: map[string]*measured{}}
}

// Measure measures all tasks once.
func Measure(tasks []Status) map[string]Usage { return NewSampler().Measure(tasks) }

// found is the sum over a task's processes in one pass.
type found struct {
	usage Usage
	ran   bool
}

// Measure measures all tasks in one pass over the machine's processes. It runs in
// the caller's process and costs the supervisor nothing. A process belongs to a task
// if it is in the task's session or descends from such a process. Ended tasks are
// absent.
func (s *Sampler) Measure(tasks []Status) map[string]Usage {
	s.pass++
	owner := make(map[int]int, len(tasks)) // pid of a task -> index
	for i := range tasks {
		if tasks[i].Exit == nil {
			owner[tasks[i].PID] = i
		}
	}
	out := make(map[string]Usage, len(owner))
	if len(owner) == 0 {
		return out
	}
	s.scan()
	sums := s.sum(len(tasks), owner)
	for _, i := range owner {
		t := &tasks[i]
		known := s.tasks[t.ID]
		if known == nil || sums[i].ran || len(sums[i].usage.PIDs) != len(known.usage.PIDs) || len(sums[i].usage.PIDs) == 0 || (s.pass+i)%refresh == 0 {
			known = &measured{usage: s.use(t, sums[i].usage)}
			s.tasks[t.ID] = known
		}
		known.seen = s.pass
		out[t.ID] = known.usage
	}
	s.forget()
	return out
}

// Ended reports whether the process of one of the tasks was gone at the last sample.
func (s *Sampler) Ended(tasks []Status) bool {
	for i := range tasks {
		if p := s.procs[tasks[i].PID]; p == nil || p.Zombie {
			return true
		}
	}
	return false
}

// use returns the usage of a task, from its cgroups if it has any.
func (s *Sampler) use(t *Status, sum Usage) Usage {
	if t.Group != "" {
		if s.groups == nil {
			s.groups, _ = cgroup.FindCgroups() // if nil, it is measured like other tasks
		}
		if s.groups != nil {
			u := s.groups.Open(t.Group).Usage()
			return Usage{User: u.User, System: u.System, RSS: u.RSS, PIDs: u.PIDs, IO: sum.IO, Group: &u}
		}
	}
	slices.Sort(sum.PIDs)
	cgroupCPU(t.Cgroup, &sum) // on failure the sum over the processes is kept
	return sum
}

// scan updates the known state of the machine's processes.
func (s *Sampler) scan() {
	for _, pid := range procfs.PIDs() {
		clock, ok := cpuClock(pid)
		if !ok {
			continue // it has just ended
		}
		p := s.procs[pid]
		if p != nil {
			same := clock == p.clock || !p.ours && clock > p.clock // if the clock went back, the pid was reused
			p.ran, p.clock, p.seen = clock != p.clock, clock, s.pass
			if same && (s.pass+pid)%refresh != 0 {
				continue
			}
		}
		st, err := procfs.Read(pid)
		if err != nil {
			continue // it has just ended
		}
		if p == nil || p.Start != st.Start {
			p = &process{clock: clock, ran: true, seen: s.pass}
			s.procs[pid] = p
		}
		p.Process = st
	}
	for pid, p := range s.procs {
		if p.seen != s.pass {
			delete(s.procs, pid)
		}
	}
}

// cpuClock returns the CPU time of a process in nanoseconds.
func cpuClock(pid int) (int64, bool) {
	const schedClock = 2 // the clock of the whole process; see clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// sum adds up the usage of each task's processes.
func (s *Sampler) sum(tasks int, owner map[int]int) []found {
	page := uint64(os.Getpagesize())
	out := make([]found, tasks)
	for _, p := range s.procs {
		i, ok := s.ownerOf(p, owner)
		p.ours = ok
		if !ok {
			continue
		}
		f := &out[i]
		f.usage.User += time.Duration(p.UserWithChildren) * time.Second / procfs.TicksPerSecond
		f.usage.System += time.Duration(p.SystemWithChildren) * time.Second / procfs.TicksPerSecond
		f.usage.RSS += p.Resident * page
		f.usage.PIDs = append(f.usage.PIDs, p.PID)
		f.ran = f.ran || p.ran
		if p.ran || p.io == nil {
			p.io = readIO(p.PID)
		}
		if p.io != nil {
			if f.usage.IO == nil {
				f.usage.IO = &IO{}
			}
			f.usage.IO.Read += p.io.Read
			f.usage.IO.Written += p.io.Written
		}
	}
	return out
}

func (s *Sampler) ownerOf(p *process, owner map[int]int) (int, bool) {
	for range 64 { // a limit deeper than any process tree, in case reused pids form a cycle
		if i, ok := owner[p.Session]; ok {
			return i, true
		}
		parent, ok := s.procs[p.Parent]
		if !ok {
			return 0, false
		}
		p = parent
	}
	return 0, false
}

// forget drops the tasks that this pass did not measure.
func (s *Sampler) forget() {
	for id, m := range s.tasks {
		if m.seen != s.pass {
			delete(s.tasks, id)
		}
	}
}

// cgroupCPU replaces the sum over processes with the cgroup's counter, which
// includes processes that started and ended between two samples.
func cgroupCPU(dir string, u *Usage) bool {
	if dir == "" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "user_usec":
			u.User = time.Duration(n) * time.Microsecond
		case name == "system_usec":
			u.System = time.Duration(n) * time.Microsecond
		}
	}
	return true
}

// Processes measures each process of a task; none if it has ended.
func Processes(t Status) map[int]Process {
	if t.Exit != nil {
		return nil
	}
	booted, now := bootTime(), time.Now()
	out := map[int]Process{}
	for _, pid := range Measure([]Status{t})[t.ID].PIDs {
		st, err := procfs.Read(pid)
		if err != nil || st.Zombie {
			continue // it has just ended
		}
		out[pid] = Process{
			Start: st.Start, StartedAt: booted.Add(time.Duration(st.Start) * time.Second / procfs.TicksPerSecond), At: now,
			// Without its children, which have figures of their own while they live.
			User: time.Duration(st.User) * time.Second / procfs.TicksPerSecond, System: time.Duration(st.System) * time.Second / procfs.TicksPerSecond,
			RSS: st.Resident * uint64(os.Getpagesize()),
		}
	}
	return out
}

// bootTime returns when the machine was started, by the clock of start times.
func bootTime() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}
