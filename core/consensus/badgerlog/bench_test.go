// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package badgerlog_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

// BenchmarkStoreLogs writes batches as raft does and truncates every 8,192
// entries, keeping 10,240 (raft's defaults), so that the cost of freeing the
// disk is in the figure.
func BenchmarkStoreLogs(b *testing.B) {
	profiles := map[string]badgerlog.Profile{"dev": badgerlog.ProfileDev, "server": badgerlog.ProfileServer}
	for name, profile := range profiles {
		for _, count := range []uint64{1, 64, 512} {
			for _, size := range []int{256, 4096} {
				b.Run(fmt.Sprintf("%s/%dx%d", name, count, size), func(b *testing.B) {
					benchStore(b, profile, count, size)
				})
			}
		}
	}
}

func benchStore(b *testing.B, profile badgerlog.Profile, count uint64, size int) {
	s, err := badgerlog.Open(badgerlog.Config{Dir: b.TempDir(), Profile: profile})
	if err != nil {
		b.Fatal(err)
	}
	defer closeStore(b, s)
	batch := entries(1, count, size)
	last, cut := uint64(0), uint64(0)
	b.SetBytes(int64(count) * int64(size))
	b.ResetTimer()
	calls := make([]time.Duration, 0, 1024)
	for b.Loop() {
		for _, log := range batch {
			last++
			log.Index = last
		}
		start := time.Now()
		mustStore(b, s, batch)
		calls = append(calls, time.Since(start))
		if last >= cut+8192+10_240 {
			if err := s.DeleteRange(cut+1, cut+8192); err != nil {
				b.Fatal(err)
			}
			cut += 8192
		}
	}
	b.ReportMetric(float64(last)/b.Elapsed().Seconds(), "entries/s")
	reportPercentiles(b, calls)
}

func reportPercentiles(b *testing.B, calls []time.Duration) {
	slices.Sort(calls)
	at := func(p float64) float64 { return float64(calls[int(p*float64(len(calls)-1))].Microseconds()) }
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(at(0.999), "p99.9-us")
}

// BenchmarkBulkDelete writes 1 M entries, deletes 990,000 of them in one call
// and opens the store again: run it with -benchtime 1x.
func BenchmarkBulkDelete(b *testing.B) {
	for _, p := range []struct {
		name    string
		profile badgerlog.Profile
	}{{"dev", badgerlog.ProfileDev}, {"server", badgerlog.ProfileServer}} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				bulkDelete(b, p.profile)
			}
		})
	}
}

func bulkDelete(b *testing.B, profile badgerlog.Profile) {
	const all, cut = 1_000_000, 990_000
	dir := b.TempDir()
	open := func() *badgerlog.Store {
		s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: profile})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	timed := func(metric string, f func()) {
		start := time.Now()
		f()
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, metric)
	}
	s := open()
	timed("write-ms", func() {
		for i := uint64(0); i < all/500; i++ {
			mustStore(b, s, entries(i*500+1, i*500+500, 256))
		}
	})
	b.ReportMetric(float64(diskUse(b, dir))/1e6, "full-MB")
	closeStore(b, s)
	timed("open-ms", func() { s = open(); bounds(b, s) })
	rng, log := rand.New(rand.NewPCG(1, 1)), &raft.Log{}
	timed("get-us", func() { // 1,000 gets: milliseconds in sum are microseconds each
		for range 1000 {
			if err := s.GetLog(uint64(rng.IntN(all)+1), log); err != nil {
				b.Fatal(err)
			}
		}
	})
	timed("delete-ms", func() {
		if err := s.DeleteRange(1, cut); err != nil {
			b.Fatal(err)
		}
	})
	closeStore(b, s)
	timed("reopen-ms", func() { s = open(); bounds(b, s) })
	closeStore(b, s)
	b.ReportMetric(float64(diskUse(b, dir))/1e6, "left-MB")
}

// BenchmarkSteadyTruncation writes 300,000 entries in batches of 64, keeps
// 10,000 and deletes every 8,192: run it with -benchtime 1x.
func BenchmarkSteadyTruncation(b *testing.B) {
	for _, p := range []struct {
		name    string
		profile badgerlog.Profile
	}{{"dev", badgerlog.ProfileDev}, {"server", badgerlog.ProfileServer}} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				steadyTruncation(b, p.profile)
			}
		})
	}
}

func steadyTruncation(b *testing.B, profile badgerlog.Profile) {
	dir := b.TempDir()
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: profile})
	if err != nil {
		b.Fatal(err)
	}
	var calls []time.Duration
	var deleting time.Duration
	cut := uint64(0)
	for last := uint64(0); last < 300_000; last += 64 {
		batch := entries(last+1, last+64, 256)
		start := time.Now()
		mustStore(b, s, batch)
		calls = append(calls, time.Since(start))
		if last+64 >= cut+8192+10_000 {
			start := time.Now()
			if err := s.DeleteRange(cut+1, cut+8192); err != nil {
				b.Fatal(err)
			}
			deleting += time.Since(start)
			cut += 8192
		}
	}
	reportPercentiles(b, calls)
	b.ReportMetric(float64(deleting.Milliseconds()), "delete-ms")
	closeStore(b, s)
	b.ReportMetric(float64(diskUse(b, dir))/1e6, "left-MB")
}

// BenchmarkIdle opens a store, stores 1,000 entries and reports what it costs
// to have it open.
func BenchmarkIdle(b *testing.B) {
	for _, p := range []struct {
		name    string
		profile badgerlog.Profile
	}{{"dev", badgerlog.ProfileDev}, {"server", badgerlog.ProfileServer}} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				goroutines := runtime.NumGoroutine()
				s, err := badgerlog.Open(badgerlog.Config{Dir: b.TempDir(), Profile: p.profile})
				if err != nil {
					b.Fatal(err)
				}
				mustStore(b, s, entries(1, 1000, 256))
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric((float64(after.HeapInuse)-float64(before.HeapInuse))/1e6, "heap-MB")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
				closeStore(b, s)
			}
		})
	}
}
