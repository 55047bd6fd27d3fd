// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statshost

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// Collector measures the resource usage of the machine.
type Collector struct {
	mounts *mounts

	mu   sync.Mutex
	cfg  config
	took map[stats.Part]*stats.Observed
}

// tookBounds are the buckets of the time that reading a part takes, in seconds.
var tookBounds = []float64{0.0001, 0.001, 0.01, 0.1, 1, 10}

var _ stats.Collector = (*Collector)(nil)

// config is the plugin's config block.
type config struct {
	FileSystemTypes   []string `json:"file_system_types"`
	ExcludeMounts     []string `json:"exclude_mounts"`
	ExcludeDisks      []string `json:"exclude_disks"`
	ExcludeInterfaces []string `json:"exclude_interfaces"`
}

// New returns a collector.
func New() *Collector {
	return &Collector{mounts: newMounts(), took: map[stats.Part]*stats.Observed{}}
}

// Info implements stats.Collector.
func (c *Collector) Info() stats.Info {
	return stats.Info{Name: "host", Parts: stats.Parts, Series: []stats.Series{{
		Name: "host.read_time", Unit: "seconds", Kind: stats.Histogram, Bounds: tookBounds, Labels: []string{"part"},
		Description: "how long it took to read a part of the machine: a slow disk or sensor shows here",
	}}, ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{
			Name: "file_system_types", Type: schema.ListString, Default: []string{},
			Description: "types of file systems to measure besides local disks and the root, such as nfs4 or tmpfs",
		},
		{
			Name: "exclude_mounts", Type: schema.ListString, Default: []string{},
			Description: "patterns of mount points that are not measured; * stands for anything but a slash",
		},
		{Name: "exclude_disks", Type: schema.ListString, Default: []string{"loop*", "ram*"}, Description: "patterns of block devices that are not measured"},
		{
			Name: "exclude_interfaces", Type: schema.ListString, Default: []string{"veth*"},
			Description: "patterns of network interfaces that are not measured; a container has one each",
		},
	}}}
}

// SetConfig implements stats.Collector.
func (c *Collector) SetConfig(_ context.Context, body []byte) error {
	var cfg config
	if err := schema.Unmarshal(body, &cfg); err != nil {
		return err
	}
	for name, patterns := range map[string][]string{
		"exclude_mounts": cfg.ExcludeMounts, "exclude_disks": cfg.ExcludeDisks, "exclude_interfaces": cfg.ExcludeInterfaces,
	} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				return errdefs.InvalidArgumentf("%s: the pattern %q is not well formed: %w", name, p, err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg = cfg
	return nil
}

// excluded reports whether a name matches one of the patterns, which SetConfig has
// validated.
func excluded(name string, patterns []string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Collect implements stats.Collector.
func (c *Collector) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	return stats.Every(ctx, interval, c.measure)
}

// errNone means that the machine has no device of a kind.
var errNone = errors.New("this machine has none")

// measure takes one sample. If a part cannot be read, the sample lists that as a
// problem and contains the other parts.
func (c *Collector) measure(ctx context.Context) stats.Sample {
	c.mu.Lock()
	cfg := c.cfg
	c.mu.Unlock()
	s := stats.Sample{Time: time.Now()}
	for _, part := range []struct {
		name stats.Part
		read func(context.Context, config, *stats.Sample) error
	}{
		{stats.PartCPU, readCPU}, {stats.PartMemory, readMemory}, {stats.PartSwap, readSwap}, {stats.PartFileSystems, c.mounts.read},
		{stats.PartDisks, readDisks}, {stats.PartNetworks, readNetworks}, {stats.PartTemperatures, readTemperatures},
		{stats.PartLoad, readLoad}, {stats.PartUptime, readUptime},
	} {
		began := time.Now()
		if err := part.read(ctx, cfg, &s); err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", part.name, err))
		}
		s.Values = append(s.Values, stats.Value{
			Series: "host.read_time", Labels: map[string]string{"part": string(part.name)}, Observed: c.observe(part.name, time.Since(began)),
		})
	}
	return s
}

// observe counts how long a part took, and returns all counts of the part.
func (c *Collector) observe(part stats.Part, took time.Duration) *stats.Observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.took[part]
	if o == nil {
		o = stats.NewObserved(tookBounds)
		c.took[part] = o
	}
	o.Add(tookBounds, took.Seconds())
	return o.Copy()
}
