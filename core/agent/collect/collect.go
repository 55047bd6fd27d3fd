// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package collect removes what nobody needs any more: the directories and records of
// ended allocs, and tasks of drivers that no alloc owns. It does not end allocs. Only
// core/agent and packages below it may import it.
package collect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits are the limits above which ended allocs are removed. Allocs that servers have
// removed are removed at once.
type Limits struct {
	MaxAllocs  int           // ended allocs that are kept; default 50
	Interval   time.Duration // how often the disk is looked at; default 1 min
	DiskUsage  float64       // percent, above which ended allocs go; default 80
	InodeUsage float64       // the same of inodes; default 70
	Parallel   int           // allocs that are removed at the same time; default 2

	// Usage tells how full the disk of a directory is, in percent.
	Usage func(ctx context.Context, dir string) (disk, inodes float64, err error)
}

func (g *Limits) setDefaults() {
	def(&g.MaxAllocs, 50)
	def(&g.Interval, time.Minute)
	def(&g.DiskUsage, 80)
	def(&g.InodeUsage, 70)
	def(&g.Parallel, 2)
	if g.Usage == nil {
		g.Usage = fingerprint.DiskUsage
	}
}

func def[T int | float64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Allocs are the allocs of the node.
type Allocs interface {
	Runners() []*alloc.Runner
	// Runner returns the runner of an alloc, or an error of class NotFound.
	Runner(allocID string) (*alloc.Runner, error)
	// Orphan reports whether servers have removed an alloc.
	Orphan(allocID string) bool
	// Remove removes an ended alloc from the node.
	Remove(ctx context.Context, r *alloc.Runner) error
	// Owned reports whether a task of a driver is an alloc's, or may be.
	Owned(taskID string) bool
	// OwnsCgroup reports the same about a cgroup that this agent has made.
	OwnsCgroup(allocID, task string) bool
	// OwnsNetwork reports the same about the network of an alloc that a network plugin has.
	OwnsNetwork(allocID string) bool
}

// Cgroups are the cgroups of tasks that agents have made. *cgroup.Tree implements it.
type Cgroups interface {
	Sweep(ctx context.Context, owned func(allocID, task string) bool) ([]string, error)
}

// Networks are the network plugins of the node.
type Networks interface {
	// ListNetworks returns the allocs of which a plugin has something, by its name.
	ListNetworks(ctx context.Context) (map[string][]string, error)
	SweepNetwork(ctx context.Context, plugin, allocID string) error
}

// Drivers are the node's drivers.
type Drivers interface {
	Driver(name string) (driver.Driver, error)
	Fingerprints() ([]pluginhost.DriverFingerprint, <-chan struct{})
}

// Config is what a collector needs.
type Config struct {
	Limits  Limits
	Root    string // directory of the allocs' directories
	Allocs  Allocs
	Drivers Drivers
	// Networks may be nil, like Cgroups.
	Networks Networks
	Cgroups  Cgroups
	// EndAcknowledged reports whether servers know that an alloc has ended.
	EndAcknowledged func(allocID string) bool
	Logger          hclog.Logger
}

// Collector removes the data of ended allocs, and tasks, cgroups and networks that belong
// to no alloc.
type Collector struct {
	cfg   Config
	ended chan struct{} // capacity 1: there may be garbage
}

// New returns a collector that works while Run and Sweep do.
func New(cfg Config) *Collector {
	cfg.Limits.setDefaults()
	return &Collector{cfg: cfg, ended: make(chan struct{}, 1)}
}

// Garbage says that an alloc has ended. It does not block.
func (c *Collector) Garbage() {
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// Run removes ended allocs above the limits of their number or the disk, oldest first,
// until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Limits.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-c.ended:
			_ = sleep.For(ctx, c.cfg.Limits.Interval/60) // many end together
		}
		err := errors.Join(c.collectOver(ctx, c.cfg.Limits.MaxAllocs), c.collectForDisk(ctx))
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("ended allocs could not all be removed; it is tried again", "in", c.cfg.Limits.Interval, "error", err)
		}
	}
}

// endedAllocs returns the ended allocs, oldest first: those that servers have removed,
// and those whose end the servers know.
func (c *Collector) endedAllocs() (orphans, ended []*alloc.Runner) {
	for _, r := range c.cfg.Allocs.Runners() {
		switch {
		case !r.Ended() || r.BeingRead():
		case c.cfg.Allocs.Orphan(r.ID()):
			orphans = append(orphans, r)
		case c.cfg.EndAcknowledged(r.ID()):
			ended = append(ended, r)
		default:
			c.Garbage() // look again when servers know its end
		}
	}
	slices.SortFunc(ended, func(x, y *alloc.Runner) int { return x.EndedAt().Compare(y.EndedAt()) })
	return orphans, ended
}

// collectOver removes all ended allocs except the newest, and all that servers have
// removed.
func (c *Collector) collectOver(ctx context.Context, keep int) error {
	orphans, ended := c.endedAllocs()
	return c.removeAll(ctx, append(orphans, ended[:max(0, len(ended)-keep)]...))
}

// collectForDisk removes ended allocs while the disk is fuller than it may be.
func (c *Collector) collectForDisk(ctx context.Context) error {
	for ctx.Err() == nil {
		disk, inodes, err := c.cfg.Limits.Usage(ctx, c.cfg.Root)
		if err != nil {
			return err
		}
		if disk <= c.cfg.Limits.DiskUsage && inodes <= c.cfg.Limits.InodeUsage {
			return nil
		}
		_, ended := c.endedAllocs()
		if len(ended) == 0 {
			return nil // the rest is in use
		}
		c.cfg.Logger.Info("the disk of the allocs is too full; the oldest that have ended are removed", "disk_percent", int(disk), "inodes_percent", int(inodes))
		if err := c.removeAll(ctx, ended[:min(len(ended), c.cfg.Limits.Parallel)]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// removeAll removes allocs, several at the same time. A failure does not prevent the
// removal of others.
func (c *Collector) removeAll(ctx context.Context, list []*alloc.Runner) error {
	var (
		mu   sync.Mutex
		errs []error
		work sync.WaitGroup
		next = make(chan *alloc.Runner)
	)
	for range min(c.cfg.Limits.Parallel, len(list)) {
		work.Go(func() {
			for r := range next {
				if err := c.cfg.Allocs.Remove(ctx, r); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, r := range list {
		if ctx.Err() != nil {
			break
		}
		next <- r
	}
	close(next)
	work.Wait()
	return errors.Join(errs...)
}

// All removes every ended alloc that servers know to have ended.
func (c *Collector) All(ctx context.Context) error { return c.collectOver(ctx, 0) }

// ackTimeout bounds the wait for servers to know of an alloc's end.
const ackTimeout = 5 * time.Second

// One removes one ended alloc. It waits a moment until the servers know of the end, because
// nobody could report it without the alloc.
func (c *Collector) One(ctx context.Context, allocID string) error {
	r, err := c.cfg.Allocs.Runner(allocID)
	if err != nil {
		return err
	}
	for end := time.Now().Add(ackTimeout); r.Ended() && !c.cfg.Allocs.Orphan(allocID) && !c.cfg.EndAcknowledged(allocID); {
		if ctx.Err() != nil || time.Now().After(end) {
			return errdefs.FailedPreconditionf("alloc %s has ended and the servers do not know it yet; try again when the node has a session", allocID)
		}
		_ = sleep.For(ctx, 10*time.Millisecond)
	}
	return c.cfg.Allocs.Remove(ctx, r)
}
