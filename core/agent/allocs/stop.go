// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocs

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
)

// StopAll stops every alloc and waits until all have ended or ctx ends. Tasks that
// still run then are killed, so that nothing is left behind.
func (s *Set) StopAll(ctx context.Context) {
	s.end() // servers would replace the allocs that end now
	runners := s.Runners()
	together(runners, (*alloc.Runner).Stop)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for i, r := range runners {
		for !r.Ended() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				s.destroyAll(context.WithoutCancel(ctx), runners[i:])
				return
			}
		}
	}
}

func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
}

// forceTimeout limits the time for killing all tasks.
const forceTimeout = 10 * time.Second

func (s *Set) destroyAll(ctx context.Context, runners []*alloc.Runner) {
	ctx, cancel := context.WithTimeout(ctx, forceTimeout)
	defer cancel()
	var work sync.WaitGroup
	slots := make(chan struct{}, s.cfg.Parallel)
	for _, r := range runners {
		tasks, err := r.Running("")
		if err != nil {
			s.cfg.Logger.Warn("tasks may be left behind", "alloc_id", r.ID(), "error", err)
		}
		for _, t := range tasks {
			slots <- struct{}{}
			work.Go(func() {
				defer func() { <-slots }()
				if err := t.Driver.DestroyTask(ctx, t.TaskRef, true); err != nil {
					s.cfg.Logger.Warn("a task may be left behind", "task_id", t.ID, "error", err)
				}
			})
		}
	}
	work.Wait()
}
