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

	"github.com/drover-project/drover/plugins/internal/sandbox"
)

// refresh is after how many samples what has not run is read all the same: memory
// may be taken from a process that sleeps.
const refresh = 30

// Sampler measures tasks again and again. Most processes of most machines sleep,
// and asking for a process's clock costs a fiftieth of reading its state: so what
// has not run since the last sample is not read again. It is for one goroutine.
type Sampler struct {
	pass   int
	procs  map[int]*process
	tasks  map[string]*measured
	groups *sandbox.Cgroups // nil until an isolated task is measured
}

// process is what is known of one process of the machine.
type process struct {
	procStat
	clock int64 // nanoseconds that it has run
	ours  bool  // a task's
	ran   bool  // since the last sample
	seen  int   // the last pass that found it
}

// measured is what is known of one task.
type measured struct {
	usage Usage
	seen  int
}

// NewSampler returns a sampler that has measured nothing yet.
func NewSampler() *Sampler {
	return &Sampler{procs: map[int]*process{}, tasks: map[string]*measured{}}
}

// Measure samples all tasks once.
func Measure(tasks []Status) map[string]Usage { return NewSampler().Measure(tasks) }

// found is what a pass finds of a task: the sum over its processes.
type found struct {
	usage Usage
	ran   bool
}

// Measure samples all tasks in one pass over the machine's processes. It runs in
// the caller's process and costs the supervisor nothing. A process is a task's if
// it is in its session or descends from one that is. Tasks that have ended are
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

// Ended tells whether the process of one of the tasks was gone at the last sample.
func (s *Sampler) Ended(tasks []Status) bool {
	for i := range tasks {
		if p := s.procs[tasks[i].PID]; p == nil || p.zombie {
			return true
		}
	}
	return false
}

// use is what a task uses, by its cgroups where it has some.
func (s *Sampler) use(t *Status, sum Usage) Usage {
	if t.Group != "" {
		if s.groups == nil {
			s.groups, _ = sandbox.FindCgroups() // nil: measured as other tasks then
		}
		if s.groups != nil {
			u := s.groups.Open(t.Group).Usage()
			return Usage{User: u.User, System: u.System, RSS: u.RSS, PIDs: u.PIDs, Group: &u}
		}
	}
	slices.Sort(sum.PIDs)
	cgroupCPU(t.Cgroup, &sum) // else the sum over processes stays
	return sum
}

// scan brings what is known of the machine's processes up to date.
func (s *Sampler) scan() {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as many as could be read
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		clock, ok := cpuClock(pid)
		if !ok {
			continue // it has just ended
		}
		p := s.procs[pid]
		if p != nil {
			same := clock == p.clock || !p.ours && clock > p.clock // a clock that goes back is another process's
			p.ran, p.clock, p.seen = clock != p.clock, clock, s.pass
			if same && (s.pass+pid)%refresh != 0 {
				continue
			}
		}
		st, err := readStat(pid)
		if err != nil {
			continue // it has just ended
		}
		if p == nil || p.start != st.start {
			p = &process{clock: clock, ran: true, seen: s.pass}
			s.procs[pid] = p
		}
		p.procStat = st
	}
	for pid, p := range s.procs {
		if p.seen != s.pass {
			delete(s.procs, pid)
		}
	}
}

// cpuClock is how long a process has run, in nanoseconds.
func cpuClock(pid int) (int64, bool) {
	const schedClock = 2 // of the whole process; see clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// sum adds up what the processes of each task use.
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
		f.usage.User += time.Duration(p.utime) * time.Second / clockTicks
		f.usage.System += time.Duration(p.stime) * time.Second / clockTicks
		f.usage.RSS += p.rssPages * page
		f.usage.PIDs = append(f.usage.PIDs, p.pid)
		f.ran = f.ran || p.ran
	}
	return out
}

func (s *Sampler) ownerOf(p *process, owner map[int]int) (int, bool) {
	for range 64 { // deeper than any tree, and an end should pids be reused meanwhile
		if i, ok := owner[p.session]; ok {
			return i, true
		}
		parent, ok := s.procs[p.ppid]
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

// cgroupCPU replaces the sum over processes by the cgroup's counter, which also
// has those that came and went between two samples.
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
