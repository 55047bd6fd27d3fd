// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	host "github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fake is a driver that measures the tasks it is told of.
type fake struct {
	driver.Driver
	name string
	fail error

	mu    sync.Mutex
	tasks map[string]bool
	opens int
	live  int
}

func (f *fake) Info() driver.Info { return driver.Info{Name: f.name} }

func (f *fake) set(id string, runs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[id] = runs
}

func (f *fake) streams() (opened, live int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opens, f.live
}

func (f *fake) measure() []driver.TaskStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []driver.TaskStats{}
	for id, runs := range f.tasks {
		if runs {
			out = append(out, driver.TaskStats{TaskID: id, Time: time.Now(), Memory: driver.MemoryStats{RSS: 42}})
		}
	}
	return out
}

func (f *fake) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens++
	if f.fail != nil {
		return nil, f.fail
	}
	f.live++
	out := make(chan []driver.TaskStats)
	go func() {
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.live--
			close(out)
		}()
		for {
			select {
			case out <- f.measure():
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func TestOneStreamServesAllTasksOfADriverAndOnlyWhileSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{name: "x", tasks: map[string]bool{}}
		for i := range 1000 {
			d.set(strings.Repeat("t", i+1), true)
		}
		c := stats.NewTasks(time.Second, nil, nil)
		defer c.Close()
		time.Sleep(time.Minute) // of the bubble's clock
		if opened, _ := d.streams(); opened != 0 {
			t.Fatalf("%d streams were opened before anybody asked", opened)
		}
		for range 30 {
			if s, ok := c.Get(t.Context(), d, "ttt"); !ok || s.Memory.RSS != 42 {
				t.Fatalf("sample %+v, %v", s, ok)
			}
			if n := len(c.Now(d)); n != 1000 {
				t.Fatalf("%d tasks", n)
			}
			time.Sleep(time.Second)
		}
		if opened, live := d.streams(); opened != 1 || live != 1 {
			t.Errorf("%d streams were opened, %d are open", opened, live)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if _, live := d.streams(); live != 0 {
			t.Errorf("%d streams are open though nobody has asked for long", live)
		}
	})
}

func TestATaskThatHasEndedHasNoSampleLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{name: "x", tasks: map[string]bool{"a": true, "b": true}}
		c := stats.NewTasks(time.Second, nil, nil)
		defer c.Close()
		if _, ok := c.Get(t.Context(), d, "a"); !ok {
			t.Fatal("no sample of a")
		}
		d.set("a", false)
		time.Sleep(1100 * time.Millisecond)
		if got := slices.Collect(maps.Keys(c.Now(d))); !slices.Equal(got, []string{"b"}) {
			t.Errorf("samples of %q", got)
		}
		if _, ok := c.Get(t.Context(), d, "a"); ok {
			t.Error("a sample of a task that has ended")
		}
	})
}

func TestATaskThatHasJustStartedIsWaitedForOneSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{name: "x", tasks: map[string]bool{"a": true}}
		c := stats.NewTasks(time.Second, nil, nil)
		defer c.Close()
		c.Get(t.Context(), d, "a")
		d.set("new", true)
		asked := time.Now()
		if _, ok := c.Get(t.Context(), d, "new"); !ok || time.Since(asked) > time.Second {
			t.Errorf("a sample: %v, after %s", ok, time.Since(asked))
		}
	})
}

func TestADriverThatCannotMeasureIsAskedOnceAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{name: "x", tasks: map[string]bool{}, fail: errdefs.Unimplementedf("no")}
		restarted := func() {}
		c := stats.NewTasks(time.Second, func(_ string, f func()) func() { restarted = f; return func() {} }, nil)
		defer c.Close()
		for range 100 {
			asked := time.Now()
			if _, ok := c.Get(t.Context(), d, "a"); ok || time.Since(asked) > 0 {
				t.Fatalf("a sample: %v, after %s", ok, time.Since(asked))
			}
			time.Sleep(time.Second)
		}
		if opened, _ := d.streams(); opened != 1 {
			t.Errorf("asked %d times", opened)
		}
		d.mu.Lock()
		d.fail, d.tasks["a"] = nil, true
		d.mu.Unlock()
		restarted()
		if _, ok := c.Get(t.Context(), d, "a"); !ok {
			t.Error("a new process that can measure is not asked")
		}
	})
}

func reading(name string, s, before *host.Sample) pluginhost.HostReading {
	return pluginhost.HostReading{Collector: name, Plugin: "stats-" + name, Now: s, Before: before, At: time.Now()}
}

func machine(user, idle float64) *host.Sample {
	return &host.Sample{
		Time: time.Unix(7, 5), Uptime: 90 * time.Second,
		CPU:    &host.CPU{Cores: []host.CPUTimes{{Name: "cpu0", User: user, Idle: idle}}},
		Memory: &host.Memory{Total: 100, Used: 40, Available: 60, Free: 10},
		FileSystems: []host.FileSystem{
			{Device: "/dev/vda", Mountpoint: "/", Size: 100, Used: 30, Available: 60, Inodes: 10, InodesUsed: 1},
			{Device: "tmpfs", Mountpoint: "/tmp", Size: 5}, {Device: "/dev/vda", Mountpoint: "/mnt", Size: 100, Used: 30, Available: 60},
		},
		Networks: []host.Network{{Interface: "eth0", ReceivedBytes: 9}},
	}
}

func TestTheAnswerHasTheReferencesForm(t *testing.T) {
	got, err := stats.OfHost([]pluginhost.HostReading{reading("host", machine(20, 180), machine(10, 90))}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Timestamp":7000000005,"Uptime":90,"Memory":{"Total":100,"Available":60,"Used":40,"Free":10},` +
		`"CPU":[{"CPU":"cpu0","User":10,"System":0,"Idle":90,"TotalPercent":10,"TotalTicks":200}],"CPUTicksConsumed":200,` +
		`"DiskStats":[{"Device":"/dev/vda","Mountpoint":"/","Size":100,"Used":30,"Available":60,"UsedPercent":33.333333333333336,"InodesUsedPercent":10},` +
		`{"Device":"/dev/vda","Mountpoint":"/mnt","Size":100,"Used":30,"Available":60,"UsedPercent":33.333333333333336,"InodesUsedPercent":0}],` +
		`"AllocDirStats":null,"DeviceStats":null}`
	if string(body) != want {
		t.Errorf("got\n%s, want\n%s", body, want)
	}
}

func TestWithoutACollectorTheAnswerSaysWhatToDo(t *testing.T) {
	if _, err := stats.OfHost(nil, 1); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "stats-host") {
		t.Errorf("no collector: %v", err)
	}
	away := pluginhost.HostReading{Collector: "host", Problem: errdefs.Unavailablef("is being restarted")}
	if _, err := stats.OfHost([]pluginhost.HostReading{away}, 1); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "is being restarted") {
		t.Errorf("a collector that has measured nothing: %v", err)
	}
	away.Now = machine(1, 1) // it has before
	if got, err := stats.OfHost([]pluginhost.HostReading{away}, 1); err != nil || got.Timestamp != 7000000005 {
		t.Errorf("the last values: %+v, %v", got, err)
	}
}

func TestOfAPartThatTwoMeasureTheFirstByNameIsHeard(t *testing.T) {
	other := machine(1, 1)
	other.Memory = &host.Memory{Total: 7}
	only := &host.Sample{Time: time.Unix(5, 0), Memory: &host.Memory{Total: 8}}
	got, err := stats.OfHost([]pluginhost.HostReading{reading("a", only, nil), reading("b", other, nil)}, 1)
	if err != nil || got.Memory.Total != 8 || len(got.CPU) != 1 || got.Timestamp != 5e9 {
		t.Errorf("%+v, %v", got, err)
	}
}

// find returns the sample of a name and pairs of labels.
func find(list []telemetry.Sample, name string, labels ...string) (telemetry.Sample, bool) {
	for _, s := range list {
		fits := s.Name == name
		for i := 0; i+1 < len(labels); i += 2 {
			fits = fits && s.Labels[labels[i]] == labels[i+1]
		}
		if fits {
			return s, true
		}
	}
	return telemetry.Sample{}, false
}

func TestSeriesOfACollectorThatIsAwayEnd(t *testing.T) {
	fan := &host.Sample{Time: time.Now(), Values: []host.Value{
		{Series: "fan", Labels: map[string]string{"n": "1", "collector": "x"}, Value: 900}, {Series: "turns", Value: 5}, {Series: "unheard", Value: 1},
	}}
	of := reading("fans", fan, nil)
	of.Info.Series = []host.Series{{Name: "fan", Kind: host.Gauge}, {Name: "turns", Kind: host.Counter}}
	base := map[string]string{"node_id": "n1"}
	list := stats.HostSamples([]pluginhost.HostReading{of, reading("host", machine(20, 180), machine(10, 90))}, 2000, base)
	for name, want := range map[string]float64{
		"nomad.client.host.cpu.total_ticks": 200, "nomad.client.host.memory.used": 40, "nomad.client.host.disk.used": 30, "nomad.client.uptime": 90,
		"drover.client.stats.fan": 900, "drover.client.stats.turns": 5, "drover.client.host.network.received_bytes": 9, "drover.client.collector.up": 1,
	} {
		if s, ok := find(list, name, "node_id", "n1"); !ok || s.Value != want {
			t.Errorf("%s is %+v, want %v", name, s, want)
		}
	}
	if s, ok := find(list, "drover.client.stats.fan", "n", "1", "collector", "fans"); !ok || s.Kind != telemetry.Gauge {
		t.Errorf("fan %+v", s)
	}
	if s, _ := find(list, "drover.client.stats.turns"); s.Kind != telemetry.Counter {
		t.Errorf("turns %+v", s)
	}
	if s, ok := find(list, "drover.client.stats.unheard"); ok {
		t.Errorf("a series that was not declared: %+v", s)
	}
	seen := map[string]bool{}
	for _, s := range list {
		if key := s.Key(); seen[key] {
			t.Errorf("told twice: %q", key)
		}
		seen[s.Key()] = true
	}
	of.Problem = errdefs.Unavailablef("killed")
	list = stats.HostSamples([]pluginhost.HostReading{of}, 2000, base)
	if s, ok := find(list, "drover.client.collector.up", "collector", "fans"); !ok || s.Value != 0 || len(list) != 1 {
		t.Errorf("of a collector that is away: %+v", list)
	}
	if len(base) != 1 {
		t.Errorf("the labels that were given have changed: %v", base)
	}
}

func TestHistogramsAndValuesOfTasksBecomeMetrics(t *testing.T) {
	took := &host.Observed{Counts: []uint64{3, 2, 1}, Sum: 9}
	r := reading("disks", &host.Sample{Time: time.Now(), Values: []host.Value{
		{Series: "took", Labels: map[string]string{"device": "sda", "le": "1"}, Observed: took},
		{Series: "took", Observed: &host.Observed{Counts: []uint64{1}}}, {Series: "took", Value: 6}, // not the buckets of the series
		{Series: "waits", Task: "a1/web", Value: 7}, {Series: "waits", Task: "gone/web", Value: 8}, {Series: "waits", Value: 9},
		{Series: "plain", Task: "a1/web", Value: 1},
	}}, nil)
	r.Info.Series = []host.Series{
		{Name: "took", Kind: host.Histogram, Bounds: []float64{1, 10}}, {Name: "waits", Kind: host.Counter, PerTask: true}, {Name: "plain", Kind: host.Gauge},
	}
	r.Tasks = []host.Task{{ID: "a1/web", AllocID: "a1", TaskGroup: "g", Name: "web", Namespace: "default", JobID: "j"}}
	var got []telemetry.Sample
	for _, s := range stats.HostSamples([]pluginhost.HostReading{r}, 2000, nil) {
		if strings.HasPrefix(s.Name, "drover.client.stats.") {
			got = append(got, s)
		}
	}
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	h, ok := find(got, "drover.client.stats.took", "device", "sda", "collector", "disks")
	if !ok || h.Kind != telemetry.Histogram || h.Count != 6 || h.Value != 9 || h.Buckets == nil || h.Buckets.Counts[2] != 1 || h.Labels["le"] != "" {
		t.Errorf("histogram %+v", h)
	}
	w, ok := find(got, "drover.client.stats.waits", "alloc_id", "a1", "task", "web", "task_group", "g", "namespace", "default", "job", "j")
	if !ok || w.Kind != telemetry.Counter || w.Value != 7 {
		t.Errorf("of a task: %+v", got)
	}
}

func TestAnAllocsMetricsHaveTheReferencesNamesAndLabels(t *testing.T) {
	job := &model.Job{
		ID: "cron/periodic-1795262400", Name: "cron/periodic-1795262400", ParentID: "cron", Meta: map[string]string{"team": "a", "tier": "1"},
		TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t", Meta: map[string]string{"team": "b", "job": "no"}}}}},
	}
	a := &model.Allocation{
		ID: "a1", Namespace: "default", TaskGroup: "g", JobID: job.ID, Job: job, AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
			"t": {Cpu: model.AllocatedCpuResources{CpuShares: 500}, Memory: model.AllocatedMemoryResources{MemoryMB: 2, MemoryMaxMB: 4}},
		}},
	}
	run := stats.Running{Alloc: a, Task: "t", Sample: driver.TaskStats{
		CPU: driver.CPUStats{Percent: 50, Measured: []string{"Percent"}}, Memory: driver.MemoryStats{RSS: 7, Usage: 9},
	}}
	list := stats.AllocSamples([]stats.Running{run}, 2000, stats.AllocOptions{Metadata: true, MetadataKeys: []string{"team", "job"}}, map[string]string{"host": "h"})
	labels := map[string]string{
		"host": "h", "alloc_id": "a1", "task_group": "g", "task": "t", "namespace": "default", "job": job.Name, "parent_id": "cron",
		"periodic_id": "1795262400", "team": "b",
	}
	for name, want := range map[string]float64{
		"cpu.total_percent": 50, "cpu.total_ticks": 1000, "cpu.allocated": 500, "memory.rss": 7, "memory.usage": 9, "memory.allocated": 2 << 20, "memory.max_allocated": 4 << 20,
	} {
		s, ok := find(list, "nomad.client.allocs."+name)
		if !ok || s.Value != want || !maps.Equal(s.Labels, labels) {
			t.Errorf("%s is %+v, want %v with %v", name, s, want, labels)
		}
	}
}

func TestInputAndOutputIsAMetricAndAnAnswerWhereItIsMeasured(t *testing.T) {
	a := &model.Allocation{ID: "a1", Namespace: "default", TaskGroup: "g", JobID: "j"}
	some := driver.TaskStats{Processes: 2, IO: driver.IOStats{ReadBytes: 5, WrittenBytes: 7, Measured: driver.IOMeasures[:2]}}
	list := stats.AllocSamples([]stats.Running{{Alloc: a, Task: "t", Sample: some}, {Alloc: a, Task: "none"}}, 2000, stats.AllocOptions{}, nil)
	for name, want := range map[string]float64{"io.read_bytes": 5, "io.written_bytes": 7, "processes": 2} {
		if s, ok := find(list, "drover.client.allocs."+name, "task", "t"); !ok || s.Value != want {
			t.Errorf("%s is %+v, want %v", name, s, want)
		}
		if s, ok := find(list, "drover.client.allocs."+name, "task", "none"); ok {
			t.Errorf("%s of a task that is not measured: %+v", name, s)
		}
	}
	if s, ok := find(list, "drover.client.allocs.io.reads"); ok {
		t.Errorf("operations, which are not measured: %+v", s)
	}
	out := stats.NewAllocUsage()
	out.Add("t", some, 2000, nil)
	out.Add("u", some, 2000, nil)
	out.Add("none", driver.TaskStats{}, 2000, nil)
	if io := out.ResourceUsage.IOStats; io == nil || io.ReadBytes != 10 || io.WrittenBytes != 14 || out.ResourceUsage.Processes != 4 {
		t.Errorf("the alloc's usage is %+v", out.ResourceUsage)
	}
	if out.Tasks["none"].ResourceUsage.IOStats != nil {
		t.Errorf("the answer names input and output that nobody measured")
	}
}

func TestWhatHappenedToTasksIsCountedUnderTheReferencesNames(t *testing.T) {
	a := &model.Allocation{ID: "a1", Namespace: "default", TaskGroup: "g", JobID: "j", Job: &model.Job{ID: "j", Name: "j"}}
	list := stats.CountSamples([]stats.Counted{
		{Alloc: a, Task: "up", Starts: 3, Restarts: 2, OOMKills: 1, Running: true},
		{Alloc: a, Task: "done", Starts: 1, Dead: true},
		{Alloc: a, Task: "broken", Starts: 1, Dead: true, Failed: true},
	}, stats.AllocOptions{}, map[string]string{"host": "h"})
	for task, want := range map[string]map[string]float64{
		"up":     {"start": 3, "restart": 2, "oom_killed": 1, "complete": 0, "failed": 0, "running": 1},
		"done":   {"start": 1, "restart": 0, "oom_killed": 0, "complete": 1, "failed": 0, "running": 0},
		"broken": {"start": 1, "restart": 0, "oom_killed": 0, "complete": 0, "failed": 1, "running": 0},
	} {
		labels := map[string]string{"host": "h", "alloc_id": "a1", "task_group": "g", "task": task, "namespace": "default", "job": "j"}
		for name, value := range want {
			s, ok := find(list, "nomad.client.allocs."+name, "task", task)
			kind := telemetry.Counter
			if name == "running" {
				kind = telemetry.Gauge
			}
			if !ok || s.Value != value || s.Kind != kind || !maps.Equal(s.Labels, labels) {
				t.Errorf("%s of %s is %+v, want %v", name, task, s, value)
			}
			if inJSON := s.Recent != nil && s.Recent.Sum == value; kind == telemetry.Counter && inJSON != (value > 0) {
				t.Errorf("%s of %s is told in JSON as %+v", name, task, s.Recent)
			}
		}
	}
}
