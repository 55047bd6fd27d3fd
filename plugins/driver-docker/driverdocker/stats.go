// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskStats implements driver.Driver. There is one stream for each container,
// and only while somebody listens.
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
			case <-tick.C: // a slow reader gets the next one
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// gather is how long first samples of several tasks are collected, so that they
// go out together.
const gather = 100 * time.Millisecond

// rest waits for the time of the next samples. First ones do not wait for it: an
// upgrade of the plugin shall leave no gap. It returns false if ctx ends first.
func (s *sampler) rest(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-s.first:
		if !pause(ctx, gather) {
			return false
		}
		select {
		case <-s.first: // came meanwhile
		default:
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// sampler has the streams of one listener. There is one listener, the agent.
type sampler struct {
	driver  *Driver
	streams map[string]*statsStream
	first   chan struct{} // signalled when a stream has its first sample
	work    sync.WaitGroup
}

// statsStream is the newest sample of one container.
type statsStream struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	latest driver.TaskStats
	done   bool
}

// stale is when a sample is too old to be one of now: the daemon hangs.
const stale = 5 * time.Second

// sample returns the newest sample of each running task. It opens the streams of
// new tasks and closes those of ended ones.
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
		// A stream that breaks is opened again, not at once.
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

// read takes samples from the daemon's stream until it breaks.
func (st *statsStream) read(ctx context.Context, t *task, first chan<- struct{}) {
	r, err := t.d.api.ContainerStats(ctx, t.state.Container, client.ContainerStatsOptions{Stream: true})
	if err != nil {
		return // no samples now; the next pass tries again
	}
	defer r.Body.Close()
	dec := json.NewDecoder(r.Body)
	var before container.StatsResponse
	for {
		var now container.StatsResponse
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

// taskStats makes a sample of what the daemon measured now and before.
func taskStats(id string, before, now container.StatsResponse) driver.TaskStats {
	out := driver.TaskStats{TaskID: id, Time: now.Read}
	out.CPU = driver.CPUStats{
		ThrottledPeriods: now.CPUStats.ThrottlingData.ThrottledPeriods, ThrottledTime: now.CPUStats.ThrottlingData.ThrottledTime,
		Measured: []string{"Throttled Periods", "Throttled Time"},
	}
	if over := now.Read.Sub(before.Read); !before.Read.IsZero() && over > 0 {
		u, w := now.CPUStats.CPUUsage, before.CPUStats.CPUUsage
		out.CPU.Percent = share(u.TotalUsage, w.TotalUsage, over)
		out.CPU.UserMode = share(u.UsageInUsermode, w.UsageInUsermode, over)
		out.CPU.SystemMode = share(u.UsageInKernelmode, w.UsageInKernelmode, over)
		out.CPU.Measured = append(out.CPU.Measured, "Percent", "System Mode", "User Mode")
	}
	m := now.MemoryStats
	out.Memory = driver.MemoryStats{
		Usage: m.Usage, MaxUsage: m.MaxUsage, RSS: first(m.Stats, "rss", "anon"), Cache: first(m.Stats, "cache", "file"),
		Swap: first(m.Stats, "swap"), MappedFile: first(m.Stats, "mapped_file", "file_mapped"), KernelUsage: first(m.Stats, "kernel_stack"),
		Measured: []string{"RSS", "Cache", "Swap", "Usage", "Max Usage", "Mapped File"},
	}
	if now.OSType == "windows" {
		out.Memory.RSS, out.Memory.Usage = m.PrivateWorkingSet, m.Commit
		out.Memory.MaxUsage = m.CommitPeak
		out.Memory.Measured = []string{"RSS", "Usage", "Max Usage"}
	}
	return out
}

// share is the use of the cpu in percent of one core.
func share(now, before uint64, over time.Duration) float64 {
	if now < before {
		return 0
	}
	return 100 * float64(now-before) / float64(over)
}

// first returns a value under the name that this version of cgroups has for it.
func first(stats map[string]uint64, names ...string) uint64 {
	for _, n := range names {
		if v, ok := stats[n]; ok {
			return v
		}
	}
	return 0
}
