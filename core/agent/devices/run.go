// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devices

import (
	"context"
	"time"
)

// Run releases the devices of tasks that have ended and reports changes of health, until
// ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	defer k.calls.Wait()
	retry := time.NewTimer(retryPause)
	defer retry.Stop()
	for {
		prints, changed := k.cfg.Plugins.Devices()
		k.reportHealth(ctx, prints)
		retry.Stop()
		if again := k.releaseEnded(ctx); again > 0 {
			retry.Reset(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-retry.C:
		case <-changed:
			k.retryNow() // a plugin that was away may be back
		}
	}
}

func (k *Keeper) retryNow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range k.uses {
		u.next = time.Time{}
	}
}

// releaseEnded begins the releases that are due, and returns when to look again; 0 if a
// call of Look does.
func (k *Keeper) releaseEnded(ctx context.Context) (again time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, busy := k.cfg.Now(), 0
	for _, u := range k.uses {
		if u.releasing {
			busy++
		}
	}
	for _, u := range k.uses {
		if u.releasing || u.reserving > 0 || k.cfg.InUse(u.Holder.AllocID, u.Holder.Task) {
			continue
		}
		if u.Ended.IsZero() {
			u.Ended = now
		}
		if wait := u.next.Sub(now); wait > 0 {
			if again == 0 || wait < again {
				again = wait
			}
			continue
		}
		if busy == maxReleases {
			continue // the end of one calls Look
		}
		busy++
		u.releasing = true
		k.calls.Go(func() { k.release(ctx, u) })
	}
	return again
}

// release says to the plugins that a task has ended. What they have confirmed is removed
// from the use.
func (k *Keeper) release(ctx context.Context, u *use) {
	defer k.Look()
	sets := u.Sets // nobody else changes them during a release
	var err error
	for len(sets) > 0 && err == nil {
		if err = k.cfg.Plugins.ReleaseDevices(ctx, u.Holder, sets[0]); err == nil {
			sets = sets[1:]
		}
	}
	k.mu.Lock()
	u.Sets, u.releasing, u.err, u.next = sets, false, err, k.cfg.Now().Add(retryPause)
	log := k.cfg.Logger.With("alloc_id", u.Holder.AllocID, "task", u.Holder.Task)
	switch late := k.cfg.Now().Sub(u.Ended) > releaseLimit; {
	case err == nil:
		delete(k.uses, keyOf(u.Holder))
	case ctx.Err() != nil: // the next agent goes on
	case late:
		log.Error("devices of an ended task could not be released for a day; given up", "error", err)
		delete(k.uses, keyOf(u.Holder))
	default:
		log.Warn("devices of an ended task could not be released; it is tried again", "error", err)
	}
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	if err := k.save(ctx); err != nil && ctx.Err() == nil {
		log.Warn("that devices were released could not be stored; after a restart of the agent their plugin is told again", "error", err)
	}
}
