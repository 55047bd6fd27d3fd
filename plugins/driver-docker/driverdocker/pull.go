// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// An event reports the progress of a pull after firstProgress and then at most every
	// nextProgress, since servers store events. The live progress, which only the node
	// keeps, is updated every liveProgress.
	firstProgress = 5 * time.Second
	nextProgress  = 30 * time.Second
	liveProgress  = time.Second / 2
	// maxLayers is the number of layers whose progress is tracked per image.
	maxLayers = 512
)

// pulls runs one pull per image at a time, however many tasks wait for it.
type pulls struct {
	mu      sync.Mutex
	running map[pullKey]*pull
}

func newPulls() *pulls { return &pulls{running: map[pullKey]*pull{}} }

// pullKey includes the credentials, so that a task without access to an image cannot
// get it by waiting for the pull of a task with access.
type pullKey struct{ ref, auth string }

// pull is a pull in progress.
type pull struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed

	mu       sync.Mutex
	waiters  map[string]bool // task ids
	progress progress
}

// fetch pulls an image and waits at most limit. The pull continues as long as a task
// waits for it.
func (d *daemon) fetch(ctx context.Context, key pullKey, taskID string, limit, activity time.Duration) error {
	p := d.pulls.join(d, key, taskID, activity)
	defer d.events.progress(taskID, driver.Progress{})
	defer d.pulls.leave(key, p, taskID)
	d.events.tell(taskID, "Downloading image", map[string]string{"image": key.ref})
	d.events.progress(taskID, p.live())
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-p.done:
		return p.err
	case <-limited.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fetch image %s: %w", key.ref, err)
	}
	return errdefs.DeadlineExceededf("fetch image %s: not done within %s (%s); raise image_pull_timeout in the task's config, or see why the registry is slow", key.ref, limit, p.said())
}

// join joins a pull in progress, or starts one.
func (x *pulls) join(d *daemon, key pullKey, taskID string, activity time.Duration) *pull {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.running[key]
	if p == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p = &pull{cancel: cancel, done: make(chan struct{}), waiters: map[string]bool{}}
		x.running[key] = p
		go func() {
			err := p.run(ctx, d, key, activity)
			x.mu.Lock()
			if x.running[key] == p {
				delete(x.running, key)
			}
			x.mu.Unlock()
			p.err = err
			close(p.done)
			cancel()
		}()
	}
	p.mu.Lock()
	p.waiters[taskID] = true
	p.mu.Unlock()
	return p
}

// leave cancels a pull for which no task waits any more.
func (x *pulls) leave(key pullKey, p *pull, taskID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, taskID)
	if len(p.waiters) == 0 {
		p.cancel()
		if x.running[key] == p {
			delete(x.running, key)
		}
	}
}

// run pulls the image and reports the progress to the waiting tasks.
func (p *pull) run(ctx context.Context, d *daemon, key pullKey, activity time.Duration) error {
	idle, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := errdefs.DeadlineExceededf("no progress for %s", activity)
	watchdog := time.AfterFunc(activity, func() { cancel(stalled) })
	defer watchdog.Stop()
	failed := func(err error) error {
		if cause := context.Cause(idle); errors.Is(cause, stalled) {
			return errdefs.DeadlineExceededf("fetch image %s: %w (%s); see whether the registry can be reached, or raise pull_activity_timeout in the agent's plugin \"docker\" config", key.ref, stalled, p.said())
		}
		return d.pullFailed(ctx, key.ref, err)
	}
	stream, err := d.api.Load().ImagePull(idle, key.ref, client.ImagePullOptions{RegistryAuth: key.auth})
	if err != nil {
		return failed(err)
	}
	defer stream.Close()
	var owed atomic.Bool // there is progress that live has not reported yet
	live := time.AfterFunc(liveProgress, func() {
		owed.Store(false)
		p.tellLive(d)
	})
	defer live.Stop()
	due := time.Now().Add(firstProgress)
	for m, err := range stream.JSONMessages(idle) {
		if err != nil {
			return failed(err)
		}
		if m.Error != nil {
			return failed(m.Error)
		}
		if p.note(m) {
			watchdog.Reset(activity)
			if owed.CompareAndSwap(false, true) {
				live.Reset(liveProgress)
			}
		}
		if now := time.Now(); now.After(due) {
			due = now.Add(nextProgress)
			p.tell(d, key.ref)
		}
	}
	return nil
}

// pullFailed returns the error of a pull. If the registry rejected the pull, it adds
// what to check.
func (d *daemon) pullFailed(ctx context.Context, ref string, err error) error {
	err = d.failed(ctx, err, "fetch image %s", ref)
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound:
		err = errdefs.WithReason(errdefs.NotFoundf("%w; see whether the image's name and tag are right, and whether it needs a login (auth in the task's config)", err), "image_not_found")
	case errdefs.PermissionDenied:
		err = errdefs.WithReason(errdefs.PermissionDeniedf("%w; see whether the login for its registry is right (auth in the task's config or in the agent's plugin \"docker\" config)", err), "registry_denied")
	}
	return errdefs.WithDetail(err, "image", ref)
}

func (p *pull) tell(d *daemon, ref string) {
	said := p.said()
	for _, id := range p.waiting() {
		d.events.tell(id, "Docker image pull progress: "+said, map[string]string{"image": ref})
	}
}

func (p *pull) tellLive(d *daemon) {
	now := p.live()
	for _, id := range p.waiting() {
		d.events.progress(id, now)
	}
}

// waiting returns the ids of the tasks that wait for the pull.
func (p *pull) waiting() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.waiters))
}

func (p *pull) live() driver.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress.live()
}

func (p *pull) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress.String()
}

func (p *pull) note(m jsonstream.Message) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress.note(m)
}

// progress is the progress of a pull.
type progress struct{ layers map[string]layer }

type layer struct {
	status         string
	current, total int64
	fetched        bool // it is on the machine, perhaps not unpacked yet
}

// note processes a message and reports whether the progress has changed.
func (p *progress) note(m jsonstream.Message) bool {
	if m.ID == "" || strings.HasPrefix(m.Status, "Pulling from ") { // its id is the tag of the image
		return m.Status != ""
	}
	if p.layers == nil {
		p.layers = map[string]layer{}
	}
	before, known := p.layers[m.ID]
	if !known && len(p.layers) >= maxLayers {
		return true
	}
	now := layer{status: m.Status, total: before.total, current: before.current, fetched: before.fetched || fetched[m.Status]}
	if m.Progress != nil {
		now.current = m.Progress.Current
		now.total = max(m.Progress.Total, before.total)
	}
	p.layers[m.ID] = now
	return now != before
}

// fetched contains the daemon's status texts for a layer that is downloaded.
var fetched = map[string]bool{"Verifying Checksum": true, "Download complete": true, "Extracting": true, "Pull complete": true, "Already exists": true}

// live returns the downloaded part of the image, or the unpacked part once the download is
// complete.
func (p *progress) live() driver.Progress {
	done, all, current, total, known := 0, 0, int64(0), int64(0), true
	for _, l := range p.layers {
		if l.status == "Already exists" {
			continue
		}
		if all++; l.fetched {
			done++
			current += l.total
		} else {
			current += min(l.current, l.total)
			known = known && l.total > 0 // the size of a layer is known once its download has begun
		}
		total += l.total
	}
	if all == 0 || done < all {
		if !known {
			total = 0
		}
		return driver.Progress{Phase: "Downloading image", Done: current, Total: total, Unit: driver.UnitBytes}
	}
	unpacked := 0
	for _, l := range p.layers {
		if l.status == "Pull complete" {
			unpacked++
		}
	}
	return driver.Progress{Phase: "Unpacking image", Done: int64(unpacked), Total: int64(all), Unit: "layers"}
}

// complete contains the daemon's status texts for a layer that exists.
var complete = map[string]bool{"Pull complete": true, "Already exists": true}

func (p *progress) String() string {
	if len(p.layers) == 0 {
		return "the registry has not answered yet"
	}
	done, current, total := 0, int64(0), int64(0)
	for _, l := range p.layers {
		if complete[l.status] {
			done++
			current += l.total
		} else {
			current += min(l.current, l.total)
		}
		total += l.total
	}
	return fmt.Sprintf("%d of %d layers, %.1f of %.1f MiB", done, len(p.layers), float64(current)/mib, float64(total)/mib)
}
