// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
)

// GC configures when the directories of ended allocs are removed. Allocs that servers
// have removed are removed at once.
type GC struct {
	MaxAllocs  int           // ended allocs that are kept; default 50
	Interval   time.Duration // how often the disk is looked at; default 1 min
	DiskUsage  float64       // percent, above which ended allocs go; default 80
	InodeUsage float64       // the same of inodes; default 70
	Parallel   int           // allocs that are removed at the same time; default 2

	// Usage tells how full the disk of a directory is, in percent.
	Usage func(ctx context.Context, dir string) (disk, inodes float64, err error)
}

func (g *GC) setDefaults() {
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

// garbage says that something has ended.
func (a *Agent) garbage() {
	select {
	case a.collect <- struct{}{}:
	default:
	}
}

// collectGarbage removes ended allocs above the limits of their number or the disk,
// oldest first, in the background.
func (a *Agent) collectGarbage(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.GC.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.collect:
			a.sleep(ctx, a.cfg.GC.Interval/60) // many end together
		}
		err := errors.Join(a.collectOver(ctx, a.cfg.GC.MaxAllocs), a.collectForDisk(ctx))
		if err != nil && ctx.Err() == nil {
			a.cfg.Logger.Warn("ended allocs could not all be removed; it is tried again", "in", a.cfg.GC.Interval, "error", err)
		}
	}
}

// endedAllocs returns the ended allocs, oldest first: those that servers have removed,
// and those whose end the servers know.
func (a *Agent) endedAllocs() (orphans, ended []*alloc.Runner) {
	for _, r := range a.runners() {
		switch {
		case !r.Ended():
		case a.isOrphan(r.ID()):
			orphans = append(orphans, r)
		case a.updates.EndAcknowledged(r.ID()):
			ended = append(ended, r)
		default:
			a.garbage() // look again when servers know its end
		}
	}
	slices.SortFunc(ended, func(x, y *alloc.Runner) int { return x.EndedAt().Compare(y.EndedAt()) })
	return orphans, ended
}

// collectOver removes all ended allocs except the newest, and all that servers have
// removed.
func (a *Agent) collectOver(ctx context.Context, keep int) error {
	orphans, ended := a.endedAllocs()
	return a.removeAll(ctx, append(orphans, ended[:max(0, len(ended)-keep)]...))
}

// collectForDisk removes ended allocs while the disk is fuller than it may be.
func (a *Agent) collectForDisk(ctx context.Context) error {
	for ctx.Err() == nil {
		disk, inodes, err := a.cfg.GC.Usage(ctx, a.cfg.AllocDir)
		if err != nil {
			return err
		}
		if disk <= a.cfg.GC.DiskUsage && inodes <= a.cfg.GC.InodeUsage {
			return nil
		}
		_, ended := a.endedAllocs()
		if len(ended) == 0 {
			return nil // the rest is in use
		}
		a.cfg.Logger.Info("the disk of the allocs is too full; the oldest that have ended are removed", "disk_percent", int(disk), "inodes_percent", int(inodes))
		if err := a.removeAll(ctx, ended[:min(len(ended), a.cfg.GC.Parallel)]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// removeAll removes allocs, several at the same time. A failure does not prevent the
// removal of others.
func (a *Agent) removeAll(ctx context.Context, list []*alloc.Runner) error {
	var (
		mu   sync.Mutex
		errs []error
		work sync.WaitGroup
		next = make(chan *alloc.Runner)
	)
	for range min(a.cfg.GC.Parallel, len(list)) {
		work.Go(func() {
			for r := range next {
				if err := a.remove(ctx, r); err != nil {
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

func (a *Agent) isOrphan(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orphans[id]
}

func (a *Agent) remove(ctx context.Context, r *alloc.Runner) error {
	if err := r.Destroy(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.allocs, r.ID())
	if a.orphans[r.ID()] {
		delete(a.orphans, r.ID())
		delete(a.known, r.ID())
	}
	return nil
}

// CollectAll removes every ended alloc that servers know to have ended.
func (a *Agent) CollectAll(ctx context.Context) error { return a.collectOver(ctx, 0) }
