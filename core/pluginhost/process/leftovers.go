// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"os"
	"slices"
	"sync"
)

// EndLeftovers ends the processes that an earlier agent left and that no plugin of this one
// takes over, and removes what they left. current are the names of the existing plugins,
// whose processes are reattached, and remembered the names of the plugins with stored data.
// It must be called before any launch.
func (l *Launcher) EndLeftovers(ctx context.Context, current, remembered []string) error {
	if err := l.Others.end(ctx); err != nil {
		return err
	}
	if err := l.endStrays(ctx, slices.Concat(remembered, current)); err != nil {
		return err
	}
	orphans := slices.DeleteFunc(slices.Clone(remembered), func(name string) bool { return slices.Contains(current, name) })
	if err := l.endOrphans(ctx, orphans); err != nil {
		return err
	}
	l.sweepSockets(ctx)
	return nil
}

// endStrays ends processes that an earlier agent launched but could not store before
// it was killed, or whose plugins no longer exist. names are the plugins whose current
// processes are kept.
func (l *Launcher) endStrays(ctx context.Context, names []string) error {
	if l.cfg.Store == nil {
		return nil // nothing is stored, so they cannot be distinguished from other processes
	}
	known := map[int]bool{}
	for _, name := range names {
		rec, err := l.recorded(ctx, name)
		if err != nil {
			return err
		}
		if rec != nil {
			known[rec.PID] = true
		}
	}
	for _, p := range strays(l.Mark(), l.cfg.Args) {
		if !known[p.Pid] {
			l.cfg.Logger.Info("a plugin process that nobody knows is ended; its tasks are recovered in another", "pid", p.Pid)
			_ = p.Kill() // an error means that it has just ended
		}
		_ = p.Release() // nothing is done to it any more
	}
	return nil
}

// endOrphans ends the processes of plugins whose files were removed while no agent ran.
func (l *Launcher) endOrphans(ctx context.Context, names []string) error {
	var ending sync.WaitGroup
	defer ending.Wait()
	for _, name := range names {
		rec, err := l.recorded(ctx, name)
		if err != nil {
			return err
		}
		if rec == nil {
			continue
		}
		ending.Go(func() {
			l.endLeft(name, *rec)
			l.Forget(name)
		})
	}
	return nil
}

// endLeft ends a process of an earlier agent that serves nothing.
func (l *Launcher) endLeft(name string, rec record) {
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.StartTimeout)
	defer cancel()
	p, err := l.adopt(ctx, File{Name: name}, rec)
	if err != nil {
		l.cfg.Logger.Warn("a plugin process of an agent before did not answer and was killed", "plugin", name, "pid", rec.PID, "error", err)
	}
	if p != nil {
		l.cfg.Logger.Info("a plugin process that an agent left and that serves nothing any more is ended", "plugin", name, "pid", p.PID)
		p.Stop()
	}
}

// endUnreachable ends a process of an earlier agent that cannot be reached any more,
// for example because its socket is gone. It does not touch another process that has
// reused its PID.
func (l *Launcher) endUnreachable(name string, rec record) {
	if rec.Started == "" || startOf(rec.PID) != rec.Started {
		return
	}
	l.cfg.Logger.Warn("a plugin process of an earlier agent runs but cannot be reached, so it is ended; a new one takes over its tasks", "plugin", name, "pid", rec.PID)
	if proc, err := os.FindProcess(rec.PID); err == nil {
		_ = proc.Kill() // an error means that it has ended
	}
}
