// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package filestats is a complete example of a collector: every file of a directory
// holds a number, which becomes a value of a series, with the name of the file as its
// label. The number in a file with the name of a running task is that task's, too, and a
// histogram counts all numbers by their size. Scripts can add measurements by writing files.
// Tests of hosts use it too.
package filestats

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// maxFiles limits the number of values that a directory can produce.
const maxFiles = 1000

// Collector reads its values from the files of a directory.
type Collector struct {
	name  string
	reads atomic.Uint64

	mu    sync.Mutex
	dir   string
	tasks []stats.Task
	sizes *stats.Observed
}

var _ stats.TaskCollector = (*Collector)(nil)

// bounds are the bounds of the histogram of the numbers.
var bounds = []float64{1, 10, 100, 1000}

// New returns a collector with the given name.
func New(name string) *Collector {
	return &Collector{name: name, sizes: stats.NewObserved(bounds)}
}

// Info implements stats.Collector.
func (c *Collector) Info() stats.Info {
	return stats.Info{
		Name: c.name,
		ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "dir", Type: schema.String, Required: true, Description: "the directory whose files hold a number each"},
		}},
		Series: []stats.Series{
			{Name: "file.value", Kind: stats.Gauge, Description: "the number in the file", Labels: []string{"file"}},
			{Name: "file.size", Kind: stats.Histogram, Description: "the numbers that were read", Bounds: bounds},
			{Name: "task.value", Kind: stats.Gauge, Description: "the number in the file with the task's name", PerTask: true},
			{Name: "reads", Kind: stats.Counter, Description: "how often the directory was read"},
		},
	}
}

// SetConfig implements stats.Collector.
func (c *Collector) SetConfig(_ context.Context, config []byte) error {
	var v struct {
		Dir string `json:"dir"`
	}
	if err := schema.Unmarshal(config, &v); err != nil {
		return err
	}
	if !filepath.IsAbs(v.Dir) {
		return errdefs.InvalidArgumentf("dir %q is not an absolute path", v.Dir)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir = v.Dir
	return nil
}

// SetTasks implements stats.TaskCollector.
func (c *Collector) SetTasks(_ context.Context, tasks []stats.Task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks = slices.Clone(tasks)
	return nil
}

// Collect implements stats.Collector.
func (c *Collector) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	return stats.Every(ctx, interval, c.measure)
}

func (c *Collector) measure(context.Context) stats.Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := c.dir
	s := stats.Sample{Time: time.Now(), Values: []stats.Value{{Series: "reads", Value: float64(c.reads.Add(1))}}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("file.value: read the directory: %v", err), "file.size: nothing was read", "task.value: nothing was read")
		return s
	}
	if len(entries) == 0 {
		s.Problems = append(s.Problems, "file.value: no file in "+dir)
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		var v float64
		if err == nil {
			v, err = strconv.ParseFloat(strings.TrimSpace(string(body)), 64)
		}
		if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("file.value: %s: %v", e.Name(), err))
			continue
		}
		s.Values = append(s.Values, stats.Value{Series: "file.value", Labels: map[string]string{"file": e.Name()}, Value: v})
		c.sizes.Add(bounds, v)
		for _, t := range c.tasks {
			if t.Name == e.Name() {
				s.Values = append(s.Values, stats.Value{Series: "task.value", Task: t.ID, Value: v})
			}
		}
	}
	s.Values = append(s.Values, stats.Value{Series: "file.size", Observed: c.sizes.Copy()})
	if !slices.ContainsFunc(s.Values, func(v stats.Value) bool { return v.Task != "" }) {
		s.Problems = append(s.Problems, "task.value: no task runs whose name is that of a file")
	}
	return s
}
