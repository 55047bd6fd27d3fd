// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package processtree measures processes with all their descendants, on every system that
// gopsutil knows. It owns the sum over a tree; Linux has its own, cheaper way in
// plugins/internal/supervisor, which imports this package for the other systems.
package processtree

import (
	"context"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Usage is what a process and its descendants use.
type Usage struct {
	User   time.Duration // includes descendants that have ended since the first sample
	System time.Duration
	RSS    uint64 // bytes
	PIDs   []int
}

// Sampler measures trees repeatedly. It is not safe for concurrent use.
type Sampler struct {
	trees map[int]*tree // by the PID of the first process
	gone  map[int]bool  // first processes that the last pass did not find
	list  func(context.Context) ([]Process, error)
}

// Process is one process of the machine. Usage reads what it uses.
type Process struct {
	PID, Parent int
	Usage       func(context.Context) (Times, error)
}

// Times is what one process has used since it started. Started tells processes apart that
// had the same PID one after the other.
type Times struct {
	Started      int64 // in the system's own unit
	User, System time.Duration
	RSS          uint64
}

// tree is the last known state of a tree.
type tree struct {
	last  map[int]Times // by PID
	ended Times         // sum over processes that have ended
	seen  bool
}

// New returns a sampler of this machine.
func New() *Sampler { return NewWith(machine) }

// NewWith returns a sampler of the processes that list returns.
func NewWith(list func(context.Context) ([]Process, error)) *Sampler {
	return &Sampler{trees: map[int]*tree{}, gone: map[int]bool{}, list: list}
}

// Measure returns the usage of each tree by the PID of its first process. A tree without
// any process is absent. CPU times never go back while a tree is measured: the CPU times of
// a descendant that has ended still count.
func (s *Sampler) Measure(ctx context.Context, roots []int) (map[int]Usage, error) {
	all, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	byPID, children := make(map[int]Process, len(all)), map[int][]int{}
	for _, p := range all {
		byPID[p.PID] = p
		if p.Parent != p.PID { // the first process of some systems is its own parent
			children[p.Parent] = append(children[p.Parent], p.PID)
		}
	}
	for _, t := range s.trees {
		t.seen = false
	}
	out := make(map[int]Usage, len(roots))
	clear(s.gone)
	for _, root := range roots {
		if _, ok := byPID[root]; !ok {
			s.gone[root] = true
			continue
		}
		t := s.trees[root]
		if t == nil {
			t = &tree{}
			s.trees[root] = t
		}
		t.seen = true
		out[root] = t.measure(ctx, root, byPID, children)
	}
	for root, t := range s.trees {
		if !t.seen {
			delete(s.trees, root)
		}
	}
	return out, nil
}

// Gone reports whether the first process of a tree was not there at the last sample.
func (s *Sampler) Gone(root int) bool { return s.gone[root] }

func (t *tree) measure(ctx context.Context, root int, byPID map[int]Process, children map[int][]int) Usage {
	now := map[int]Times{}
	var u Usage
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		if _, again := now[pid]; again {
			continue // a list that was read while processes changed may have a cycle
		}
		times, err := byPID[pid].Usage(ctx)
		if err != nil {
			times = t.last[pid] // it may be ending, or may not be read: what is known stays
		}
		now[pid] = times
		u.PIDs = append(u.PIDs, pid)
		todo = append(todo, children[pid]...)
	}
	for pid, before := range t.last {
		if after, ok := now[pid]; !ok || after.Started != before.Started {
			t.ended.User += before.User
			t.ended.System += before.System
		}
	}
	t.last = now
	u.User, u.System = t.ended.User, t.ended.System
	for _, p := range now {
		u.User += p.User
		u.System += p.System
		u.RSS += p.RSS
	}
	return u
}

// machine lists the processes of this machine. Those that end meanwhile are left out.
func machine(ctx context.Context) ([]Process, error) {
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Process, 0, len(all))
	for _, p := range all {
		parent, err := p.PpidWithContext(ctx)
		if err != nil {
			continue
		}
		out = append(out, Process{PID: int(p.Pid), Parent: int(parent), Usage: func(ctx context.Context) (Times, error) { return timesOf(ctx, p) }})
	}
	return out, nil
}

func timesOf(ctx context.Context, p *process.Process) (Times, error) {
	started, err := p.CreateTimeWithContext(ctx)
	if err != nil {
		return Times{}, err
	}
	cpu, err := p.TimesWithContext(ctx)
	if err != nil {
		return Times{}, err
	}
	memory, err := p.MemoryInfoWithContext(ctx)
	if err != nil {
		return Times{}, err
	}
	return Times{Started: started, User: seconds(cpu.User), System: seconds(cpu.System), RSS: memory.RSS}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
