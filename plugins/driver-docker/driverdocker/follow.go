// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

const (
	// resync is the interval at which all containers are inspected even without events.
	// A lost event delays the end of a task at most this long.
	resync     = 30 * time.Second
	backoffMin = 200 * time.Millisecond
	backoffMax = 10 * time.Second
	// settlers is the number of containers that are inspected concurrently.
	settlers = 4
	// recheck is the delay after which a container is inspected again if an event says
	// that it died but its state says that it runs.
	recheck = 500 * time.Millisecond
)

// follow watches the ends of all containers through one event stream, which it
// reopens whenever it breaks, until ctx ends.
func (d *daemon) follow(ctx context.Context) {
	for wait := backoffMin; ctx.Err() == nil; wait = min(2*wait, backoffMax) {
		begin := time.Now()
		err := d.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > resync {
			wait = backoffMin
		}
		d.wake()
		d.log.Debug("the event stream of the Docker daemon was interrupted; opening it again", "in", wait, "error", err)
		if !pause(ctx, wait) {
			return
		}
	}
}

// watch opens the event stream, updates all tasks, and then handles events until the
// stream breaks.
func (d *daemon) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(callLimit, cancel)
	stream := d.api.Load().Events(ctx, client.EventsListOptions{Filters: client.Filters{}.
		Add("type", string(events.ContainerEventType)).Add("label", labelTask).
		Add("event", string(events.ActionDie), string(events.ActionOOM), string(events.ActionDestroy))})
	if !patience.Stop() {
		return errors.New("no answer to the request for events")
	}
	d.settleAll(ctx)
	tick := time.NewTicker(resync)
	defer tick.Stop()
	slots := make(chan struct{}, settlers)
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case m := <-stream.Messages:
			t := d.task(m.Actor.ID)
			if t == nil {
				continue
			}
			if m.Action == events.ActionOOM {
				if t.blame() {
					t.tellOutOfMemory()
				}
				continue
			}
			slots <- struct{}{}
			work.Go(func() {
				d.died(ctx, t)
				<-slots
			})
		case err := <-stream.Err:
			return err
		case <-tick.C:
			d.settleAll(ctx)
		}
	}
}

// died handles the die event of a container.
func (d *daemon) died(ctx context.Context, t *task) {
	if err := t.settle(ctx); err != nil {
		d.log.Warn("cannot inspect a container that has ended; will retry", "task_id", t.id, "error", err)
	}
	if t.result() == nil {
		// Either Docker has not updated the container's state yet, or the container was
		// restarted.
		time.AfterFunc(recheck, func() {
			_ = t.settle(ctx) // if this fails, settleAll tries again
		})
	}
}

// settleAll updates all running tasks: one request lists the containers, and each
// one that has ended is inspected.
func (d *daemon) settleAll(ctx context.Context) {
	var open []*task
	for _, t := range d.tasks() {
		if t.result() == nil {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := d.api.Load().ContainerList(limited, client.ContainerListOptions{Filters: client.Filters{}.Add("label", labelTask)})
	if err != nil {
		d.log.Warn("cannot list the containers; will retry", "error", d.failed(ctx, err, "list containers"))
		return
	}
	alive := make(map[string]bool, len(list.Items))
	for _, c := range list.Items {
		alive[c.ID] = true
	}
	for _, t := range open {
		if alive[t.state.Container] || !t.wasStarted() {
			continue
		}
		if err := t.settle(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("cannot inspect a container that has ended; will retry", "task_id", t.id, "error", err)
		}
	}
}

// wasStarted reports whether the start of the container is complete.
func (t *task) wasStarted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.startedAt.IsZero()
}
