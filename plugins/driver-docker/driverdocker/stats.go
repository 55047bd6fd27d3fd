// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskStats implements driver.Driver. It opens a stream per container, and only
// while there is a listener.
func (d *Driver) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	if interval <= 0 {
		return nil, errdefs.InvalidArgumentf("stats interval %s: must be more than zero", interval)
	}
	out := make(chan []driver.TaskStats)
	s := &sampler{driver: d, streams: map[string]*statsStream{}, first: make(chan struct{}, 1)}
	go func() {
		defer close(out)
		defer s.stop()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			batch := s.sample(ctx, interval)
			select {
			case out <- batch:
				if !s.rest(ctx, tick.C) {
					return
				}
			case <-tick.C: // a slow reader misses this sample
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// gather is the time for which first samples of several tasks are collected, so that
// they are sent together.
const gather = 100 * time.Millisecond

// rest waits until the next samples are due. If a task has its first sample, it
// returns earlier, so that an upgrade of the plugin leaves no gap in the stats. It
// returns false if ctx ends first.
func (s *sampler) rest(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-s.first:
		if !pause(ctx, gather) {
			return false
		}
		select {
		case <-s.first: // another stream got its first sample meanwhile
		default:
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// sampler holds the streams of one listener. The agent is the only listener.
type sampler struct {
	driver  *Driver
	streams map[string]*statsStream
	first   chan struct{} // receives a signal when a stream has its first sample
	work    sync.WaitGroup
}

// statsStream reads the stream of one container and holds the newest sample.
type statsStream struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	latest driver.TaskStats
	done   bool
}

// stale is the age from which a sample is no longer reported, for example because
// the daemon hangs.
const stale = 5 * time.Second

// sample returns the newest sample of each running task. It opens streams for new tasks and
// closes the streams of tasks that have ended.
func (s *sampler) sample(ctx context.Context, interval time.Duration) []driver.TaskStats {
	running := map[string]*task{}
	s.driver.mu.Lock()
	for id, t := range s.driver.known {
		running[id] = t
	}
	s.driver.mu.Unlock()
	now := time.Now()
	out := []driver.TaskStats{}
	for id, t := range running {
		if t.result() != nil {
			delete(running, id)
			continue
		}
		st := s.streams[id]
		if st == nil || st.over() {
			st = s.open(ctx, t)
		}
		if latest, ok := st.newest(now.Add(-max(2*interval, stale))); ok {
			out = append(out, latest)
		}
	}
	for id, st := range s.streams {
		if running[id] == nil {
			st.cancel()
			delete(s.streams, id)
		}
	}
	slices.SortFunc(out, func(a, b driver.TaskStats) int {
		if a.TaskID < b.TaskID {
			return -1
		}
		return 1
	})
	return out
}

func (s *sampler) stop() {
	for _, st := range s.streams {
		st.cancel()
	}
	s.work.Wait()
}

func (s *sampler) open(ctx context.Context, t *task) *statsStream {
	ctx, cancel := context.WithCancel(ctx)
	st := &statsStream{cancel: cancel}
	s.streams[t.id] = st
	s.work.Go(func() {
		defer cancel()
		st.read(ctx, t, s.first)
		// A broken stream is reopened after a pause.
		pause(ctx, time.Second)
		st.mu.Lock()
		st.done = true
		st.mu.Unlock()
	})
	return st
}

func (st *statsStream) over() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.done
}

func (st *statsStream) newest(after time.Time) (driver.TaskStats, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.latest, st.latest.Time.After(after)
}

// read reads samples from the daemon's stream until it breaks.
func (st *statsStream) read(ctx context.Context, t *task, first chan<- struct{}) {
	r, err := t.d.open(ctx, "containers/"+t.state.Container+"/stats", url.Values{"stream": {"1"}})
	if err != nil {
		return // no samples for now; the caller tries again
	}
	defer r.Close()
	dec := json.NewDecoder(r)
	var before measured
	for {
		var now measured
		if err := dec.Decode(&now); err != nil {
			return
		}
		if now.Read.IsZero() {
			continue // the container does not run
		}
		sample := taskStats(t.id, before, now)
		st.mu.Lock()
		st.latest = sample
		st.mu.Unlock()
		if before.Read.IsZero() {
			select {
			case first <- struct{}{}:
			default:
			}
		}
		before = now
	}
}

// measured contains the fields of the daemon's samples that we use.
type measured struct {
	Read   time.Time `json:"read"`
	OSType string    `json:"os_type"`
	CPU    struct {
		Usage struct {
			Total  uint64 `json:"total_usage"`
			User   uint64 `json:"usage_in_usermode"`
			Kernel uint64 `json:"usage_in_kernelmode"`
		} `json:"cpu_usage"`
		Throttling struct {
			Periods uint64 `json:"throttled_periods"`
			Time    uint64 `json:"throttled_time"`
		} `json:"throttling_data"`
	} `json:"cpu_stats"`
	Memory struct {
		Usage             uint64       `json:"usage"`
		MaxUsage          uint64       `json:"max_usage"`
		Detail            memoryDetail `json:"stats"`
		Commit            uint64       `json:"commitbytes"` // this and the next two fields are reported on Windows
		CommitPeak        uint64       `json:"commitpeakbytes"`
		PrivateWorkingSet uint64       `json:"privateworkingset"`
	} `json:"memory_stats"`
	Pids struct {
		Current uint64 `json:"current"`
	} `json:"pids_stats"`
	IO struct {
		Bytes      []ioEntry `json:"io_service_bytes_recursive"`
		Operations []ioEntry `json:"io_serviced_recursive"`
	} `json:"blkio_stats"`
	Storage struct { // reported on Windows
		Reads        uint64 `json:"read_count_normalized"`
		ReadBytes    uint64 `json:"read_size_bytes"`
		Writes       uint64 `json:"write_count_normalized"`
		WrittenBytes uint64 `json:"write_size_bytes"`
	} `json:"storage_stats"`
	Processes uint64 `json:"num_procs"` // reported on Windows
}

// ioEntry is a counter of one block device and one operation: "Read", "Write" and
// others, with cgroup v2 in lower case.
type ioEntry struct {
	Op    string `json:"op"`
	Value uint64 `json:"value"`
}

// io returns what the container has read and written. With cgroup v2 and no operations
// yet the daemon reports no entries at all, which is not distinguishable from a kernel
// that does not count.
func (m *measured) io() driver.IOStats {
	if m.OSType == "windows" {
		s := m.Storage
		return driver.IOStats{ReadBytes: s.ReadBytes, WrittenBytes: s.WrittenBytes, Reads: s.Reads, Writes: s.Writes, Measured: driver.IOMeasures}
	}
	var out driver.IOStats
	sum := func(entries []ioEntry, read, write *uint64, measured []string) {
		for _, e := range entries {
			switch strings.ToLower(e.Op) {
			case "read":
				*read += e.Value
			case "write":
				*write += e.Value
			}
		}
		if len(entries) > 0 {
			out.Measured = append(out.Measured, measured...)
		}
	}
	sum(m.IO.Bytes, &out.ReadBytes, &out.WrittenBytes, driver.IOMeasures[:2])
	sum(m.IO.Operations, &out.Reads, &out.Writes, driver.IOMeasures[2:])
	return out
}

// memoryDetail has the field names of both cgroup versions. A sample has the fields of one
// version.
type memoryDetail struct {
	RSS         uint64 `json:"rss"`
	Anon        uint64 `json:"anon"`
	Cache       uint64 `json:"cache"`
	File        uint64 `json:"file"`
	Swap        uint64 `json:"swap"`
	MappedFile  uint64 `json:"mapped_file"`
	FileMapped  uint64 `json:"file_mapped"`
	KernelStack uint64 `json:"kernel_stack"`
	// Pages of files, which the kernel drops when memory is short; unlike Cache and File
	// without memory file systems.
	InactiveFile uint64 `json:"inactive_file"`
	ActiveFile   uint64 `json:"active_file"`
}

// The names of the measured values: in a first sample and in later ones, which also
// have the CPU percentage; memory on Linux and on Windows. All samples share these
// slices, which are never modified.
var (
	measuredCPUFirst      = []string{"Throttled Periods", "Throttled Time"}
	measuredCPU           = []string{"Throttled Periods", "Throttled Time", "Percent", "System Mode", "User Mode"}
	measuredMemory        = []string{"RSS", "Cache", "Swap", "Usage", "Max Usage", "Mapped File"}
	measuredMemoryWindows = []string{"RSS", "Usage", "Max Usage"}
)

// taskStats converts the daemon's current and previous measurements to a sample.
func taskStats(id string, before, now measured) driver.TaskStats {
	out := driver.TaskStats{TaskID: id, Time: now.Read, IO: now.io(), Processes: max(now.Pids.Current, now.Processes)}
	out.CPU = driver.CPUStats{
		ThrottledPeriods: now.CPU.Throttling.Periods, ThrottledTime: now.CPU.Throttling.Time, Measured: measuredCPUFirst,
	}
	if over := now.Read.Sub(before.Read); !before.Read.IsZero() && over > 0 {
		u, w := now.CPU.Usage, before.CPU.Usage
		out.CPU.Percent = share(u.Total, w.Total, over)
		out.CPU.UserMode = share(u.User, w.User, over)
		out.CPU.SystemMode = share(u.Kernel, w.Kernel, over)
		out.CPU.Measured = measuredCPU
	}
	m := now.Memory
	out.Memory = driver.MemoryStats{
		Usage: m.Usage, MaxUsage: m.MaxUsage, RSS: cmp.Or(m.Detail.RSS, m.Detail.Anon), Cache: cmp.Or(m.Detail.Cache, m.Detail.File),
		Swap: m.Detail.Swap, MappedFile: cmp.Or(m.Detail.MappedFile, m.Detail.FileMapped), KernelUsage: m.Detail.KernelStack,
		Measured: measuredMemory,
	}
	if now.OSType == "windows" {
		out.Memory.RSS, out.Memory.Usage, out.Memory.MaxUsage = m.PrivateWorkingSet, m.Commit, m.CommitPeak
		out.Memory.Measured = measuredMemoryWindows
	}
	return out
}

// share returns the CPU usage in percent of one core.
func share(now, before uint64, over time.Duration) float64 {
	if now < before {
		return 0
	}
	return 100 * float64(now-before) / float64(over)
}
