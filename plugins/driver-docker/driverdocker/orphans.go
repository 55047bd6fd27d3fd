// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// housekeep periodically removes unused images and orphaned containers, until ctx
// ends.
func (d *Driver) housekeep(ctx context.Context) {
	suspects := map[string]time.Time{} // containers that belong to no task, with the time since when
	agent, _, _ := d.now()
	nextOrphans := time.Now().Add(min(agent.period, orphansSoon))
	idleFrom := time.Now().Add(idleAfter)
	for {
		agent, current, changed := d.now()
		now := time.Now()
		next := nextOrphans
		alone := d.presence.alone()
		if alone && now.After(idleFrom) {
			// By now the earlier tasks are recovered, so images that none of them uses are
			// unused.
			current.idleImages(now, agent)
		}
		for _, x := range d.all() {
			if !alone {
				break
			}
			if due := x.collect(ctx, now); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		if !now.Before(nextOrphans) {
			if !alone {
				clear(suspects) // they may belong to tasks of another process
			} else if agent.GC.Dangling.Enabled {
				d.removeOrphans(ctx, current, agent, suspects)
			}
			for _, x := range d.all() {
				d.sweepStages(ctx, x)
			}
			nextOrphans = now.Add(agent.period)
			next = nextOrphans
		}
		if !until(ctx, max(min(time.Until(next), houseTick), 100*time.Millisecond), changed, nil) {
			return
		}
	}
}

// sweepStages removes mounts that no container of a daemon needs. They are left
// behind if the process is killed during a start or a removal.
func (d *Driver) sweepStages(ctx context.Context, x *daemon) {
	names, err := d.stages.idle(x.endpoint)
	if err != nil {
		x.log.Warn("cannot list the mounts of containers; will retry later", "error", err)
	}
	// The list was read before this check, so a process that starts later has created
	// none of these.
	if len(names) == 0 || !d.presence.alone() {
		return
	}
	list, err := x.ours(ctx, d.owner)
	if err != nil {
		return // the daemon is unreachable, so its containers may need their mounts
	}
	needed := map[string]bool{}
	for _, c := range list {
		needed[c.Labels[labelMounts]] = true
	}
	for _, name := range names {
		if !needed[name] {
			d.unmount(name)
		}
	}
}

// discard removes a container and its mounts. If the mounts cannot be removed now,
// the next sweep removes them.
func (d *Driver) discard(ctx context.Context, x *daemon, id, mounts string) error {
	if err := x.remove(ctx, id); err != nil {
		return err
	}
	d.unmount(mounts)
	return nil
}

// unmount removes the mounts of a container that is gone.
func (d *Driver) unmount(mounts string) {
	if err := d.stages.clear(mounts); err != nil {
		d.log.Warn("cannot remove the mounts of a container that is gone; will retry later", "error", err)
	}
}

const (
	orphansSoon = time.Minute
	houseTick   = 10 * time.Second
	idleAfter   = 10 * time.Minute
)

func (d *daemon) idleImages(now time.Time, agent agentConfig) {
	if agent.GC.Image {
		d.images.idle(now.Add(agent.imageDelay))
	}
}

func (d *Driver) all() []*daemon {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*daemon, 0, len(d.daemons))
	for _, x := range d.daemons {
		out = append(out, x)
	}
	return out
}

// removeOrphans removes containers that have the labels of this node but belong to no task.
// The agent may not have recovered their tasks yet, so it removes only containers that are
// older than the grace period and have been without a task for that long.
func (d *Driver) removeOrphans(ctx context.Context, x *daemon, agent agentConfig, suspects map[string]time.Time) {
	list, err := x.ours(ctx, d.owner)
	if err != nil {
		// While the daemon cannot be reached, the agent cannot recover tasks, so this time does
		// not count.
		clear(suspects)
		return
	}
	now := time.Now()
	seen := map[string]bool{}
	for _, c := range list {
		if !d.orphan(c) || !agent.GC.Container && c.State == container.StateExited {
			continue
		}
		seen[c.ID] = true
		since, known := suspects[c.ID]
		if !known {
			suspects[c.ID] = now
			continue
		}
		if now.Sub(since) < agent.grace || now.Sub(time.Unix(c.Created, 0)) < agent.grace {
			continue
		}
		d.removeOrphan(ctx, x, c, agent.GC.Dangling.DryRun)
	}
	for id := range suspects {
		if !seen[id] {
			delete(suspects, id)
		}
	}
}

// ours lists the containers of an owner, running or not, that have all of the
// labels.
func (d *daemon) ours(ctx context.Context, owner string, labels ...string) ([]container.Summary, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	filters := client.Filters{}.Add("label", append(labels, labelOwner+"="+owner)...)
	list, err := d.api.Load().ContainerList(limited, client.ContainerListOptions{All: true, Filters: filters})
	return list.Items, d.failed(ctx, err, "list containers")
}

// ListTasks implements driver.Lister: the agent destroys listed tasks that no alloc
// owns. Containers of ended tasks that the operator wants to keep are not listed,
// and nothing is listed if the removal of orphans is disabled.
func (d *Driver) ListTasks(ctx context.Context) ([]*driver.Handle, error) {
	config, _, _ := d.now()
	if !config.GC.Dangling.Enabled || config.GC.Dangling.DryRun {
		return nil, nil
	}
	d.mu.Lock()
	node := d.node
	d.mu.Unlock()
	var out []*driver.Handle
	for _, x := range d.all() {
		list, err := x.ours(ctx, d.owner, labelNode+"="+node)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if id := c.Labels[labelTask]; id != "" && (config.GC.Container || c.State == container.StateRunning) {
				// The labels do not contain the task's log target, so the task is not adopted.
				out = append(out, &driver.Handle{TaskID: id, Version: handleVersion})
			}
		}
	}
	return out, nil
}

// orphan reports whether a container belongs to this node and to no task.
func (d *Driver) orphan(c container.Summary) bool {
	id := c.Labels[labelTask]
	if c.Labels[labelOwner] != d.owner || id == "" || c.Labels[labelAlloc] == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.Labels[labelNode] == d.node && d.known[id] == nil && !d.starting[id] && !d.claimed[id]
}

func (d *Driver) removeOrphan(ctx context.Context, x *daemon, c container.Summary, dryRun bool) {
	log := d.log.With("container", short(c.ID), "task_id", c.Labels[labelTask], "image", c.Image, "state", c.State)
	if dryRun {
		log.Info("a container belongs to no task; it would be removed if gc.dangling_containers.dry_run were false")
		return
	}
	if !d.orphan(c) {
		return // it was recovered meanwhile
	}
	if err := d.discard(ctx, x, c.ID, c.Labels[labelMounts]); err != nil && !errdefs.IsNotFound(err) {
		log.Warn("a container belongs to no task and cannot be removed", "error", err)
		return
	}
	removeCursor(d.dir, c.ID)
	log.Info("removed a container that belongs to no task")
}
