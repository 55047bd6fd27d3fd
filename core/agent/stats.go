// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
)

// statsInterval is how often drivers sample while somebody asks, statsIdle how
// long they go on after the last question, statsWait how long a first answer
// may take.
const (
	statsInterval = time.Second
	statsIdle     = 15 * time.Second
	statsWait     = 3 * time.Second
)

// taskStats has the newest sample of each task. Drivers sample only while
// somebody asks, with one stream for all tasks of a driver.
type taskStats struct {
	mu      sync.Mutex
	streams map[string]*statsStream
	work    sync.WaitGroup
	closed  bool
}

type statsStream struct {
	asked  time.Time
	cancel context.CancelFunc
	newest map[string]driver.TaskStats
	fresh  chan struct{} // closed and replaced at each sample
}

func newTaskStats() *taskStats { return &taskStats{streams: map[string]*statsStream{}} }

func (a *Agent) closeStats() {
	if a.stats == nil {
		return
	}
	a.stats.mu.Lock()
	a.stats.closed = true
	for _, s := range a.stats.streams {
		s.cancel()
	}
	a.stats.mu.Unlock()
	a.stats.work.Wait()
}

// get returns the newest sample of a task, and waits a little for a first one.
func (t *taskStats) get(ctx context.Context, run alloc.TaskRun) (driver.TaskStats, bool) {
	ctx, cancel := context.WithTimeout(ctx, statsWait)
	defer cancel()
	for {
		t.mu.Lock()
		s := t.stream(run.Driver)
		if s == nil {
			t.mu.Unlock()
			return driver.TaskStats{}, false
		}
		s.asked = time.Now()
		sample, ok := s.newest[run.ID]
		fresh := s.fresh
		t.mu.Unlock()
		if ok {
			return sample, true
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return driver.TaskStats{}, false
		}
	}
}

// stream returns the stream of a driver, which it opens if there is none.
func (t *taskStats) stream(drv driver.Driver) *statsStream {
	name := drv.Info().Name
	if s := t.streams[name]; s != nil {
		return s
	}
	if t.closed {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &statsStream{asked: time.Now(), cancel: cancel, newest: map[string]driver.TaskStats{}, fresh: make(chan struct{})}
	t.streams[name] = s
	t.work.Go(func() {
		defer cancel()
		t.follow(ctx, drv, name, s)
	})
	return s
}

func (t *taskStats) follow(ctx context.Context, drv driver.Driver, name string, s *statsStream) {
	samples, err := drv.TaskStats(ctx, statsInterval)
	for err == nil {
		batch, ok := <-samples
		if !ok || t.take(s, batch) {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, name)
	close(s.fresh)
	s.fresh = make(chan struct{})
}

// take keeps a batch and reports whether nobody has asked for long.
func (t *taskStats) take(s *statsStream, batch []driver.TaskStats) (idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.newest = make(map[string]driver.TaskStats, len(batch))
	for _, x := range batch {
		s.newest[x.TaskID] = x
	}
	close(s.fresh)
	s.fresh = make(chan struct{})
	return time.Since(s.asked) > statsIdle
}

// hostStats samples the machine when asked, at most once a second.
type hostStats struct {
	mu      sync.Mutex
	sampler *fingerprint.StatsSampler
	last    *fingerprint.HostStats
	at      time.Time
}

func (a *Agent) hostStats(ctx context.Context) *fingerprint.HostStats {
	h := a.sampler
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil || time.Since(h.at) >= time.Second {
		h.last = h.sampler.Sample(ctx, time.Now())
		h.at = time.Now()
	}
	return h.last
}

// The body of /v1/client/allocation/ID/stats.
type (
	allocUsage struct {
		ResourceUsage *usage
		Tasks         map[string]*taskUsage
		Timestamp     int64
	}
	taskUsage struct {
		ResourceUsage *usage
		Timestamp     int64
		Pids          map[string]*usage
	}
	usage struct {
		MemoryStats memoryUsage
		CpuStats    cpuUsage
		DeviceStats []any
	}
	cpuUsage struct {
		SystemMode       float64
		UserMode         float64
		TotalTicks       float64
		ThrottledPeriods uint64
		ThrottledTime    uint64
		Percent          float64
		Measured         []string
	}
	memoryUsage struct {
		RSS            uint64
		Cache          uint64
		Swap           uint64
		MappedFile     uint64
		Usage          uint64
		MaxUsage       uint64
		KernelUsage    uint64
		KernelMaxUsage uint64
		Measured       []string
	}
)

func (a *Agent) answerStats(ctx context.Context, q rpc.AllocRequest, send func([]byte) error) error {
	r, err := a.runner(q.AllocID)
	if err != nil {
		return err
	}
	runs, err := r.Running(q.Task)
	if err != nil {
		return err
	}
	out := &allocUsage{ResourceUsage: &usage{DeviceStats: []any{}}, Tasks: map[string]*taskUsage{}}
	for _, run := range runs {
		s, ok := a.stats.get(ctx, run)
		if !ok {
			continue // a driver that does not measure, or a task that has just ended
		}
		t := &taskUsage{ResourceUsage: usageOf(s.CPU, s.Memory), Timestamp: s.Time.UnixNano(), Pids: map[string]*usage{}}
		for pid, p := range s.Pids {
			t.Pids[pid] = usageOf(p.CPU, p.Memory)
		}
		out.Tasks[run.Task] = t
		out.ResourceUsage.add(t.ResourceUsage)
		out.Timestamp = max(out.Timestamp, t.Timestamp)
	}
	return sendJSON(send, out)
}

func usageOf(c driver.CPUStats, m driver.MemoryStats) *usage {
	return &usage{CpuStats: cpuOf(c), MemoryStats: memoryUsage(m)}
}

func cpuOf(c driver.CPUStats) cpuUsage {
	return cpuUsage{
		SystemMode: c.SystemMode, UserMode: c.UserMode, TotalTicks: c.TotalTicks, Percent: c.Percent,
		ThrottledPeriods: c.ThrottledPeriods, ThrottledTime: c.ThrottledTime, Measured: c.Measured,
	}
}

// add sums the tasks of an alloc.
func (u *usage) add(v *usage) {
	c, d := &u.CpuStats, v.CpuStats
	c.SystemMode += d.SystemMode
	c.UserMode += d.UserMode
	c.TotalTicks += d.TotalTicks
	c.Percent += d.Percent
	c.ThrottledPeriods += d.ThrottledPeriods
	c.ThrottledTime += d.ThrottledTime
	c.Measured = union(c.Measured, d.Measured)
	m, n := &u.MemoryStats, v.MemoryStats
	m.RSS += n.RSS
	m.Cache += n.Cache
	m.Swap += n.Swap
	m.MappedFile += n.MappedFile
	m.Usage += n.Usage
	m.MaxUsage += n.MaxUsage
	m.KernelUsage += n.KernelUsage
	m.KernelMaxUsage += n.KernelMaxUsage
	m.Measured = union(m.Measured, n.Measured)
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}
