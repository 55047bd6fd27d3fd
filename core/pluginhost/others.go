// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// others are the processes of plugins besides the current ones: on trial, or with
// calls in progress. They are stored, so that the next agent can end them if this one
// is killed.
type others struct {
	host *Host

	mu      sync.Mutex
	records map[string][]record // by plugin
}

const othersKey = "pluginhost-others"

func newOthers(h *Host) *others { return &others{host: h, records: map[string][]record{}} }

// add stores a process before the plugin has two.
func (o *others) add(ctx context.Context, name string, p *process) error {
	rec, ok := recordOf(p)
	if !ok {
		return errdefs.Unavailablef("plugin %s: ended during its start", p.file.path)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.ContainsFunc(o.records[name], func(r record) bool { return r.PID == rec.PID }) {
		return nil
	}
	o.records[name] = append(o.records[name], rec)
	if err := o.write(ctx); err != nil {
		o.remove(name, p.pid)
		return err
	}
	return nil
}

// drop removes one process: it has ended, or is the only one.
func (o *others) drop(name string, p *process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(name, p.pid)
	o.save()
}

// clear forgets an old process that has ended, and the one that serves.
func (o *others) clear(name string, old *process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(name, old.pid)
	if len(o.records[name]) == 1 {
		delete(o.records, name)
	}
	o.save()
}

func (o *others) remove(name string, pid int) {
	o.records[name] = slices.DeleteFunc(o.records[name], func(r record) bool { return r.PID == pid })
	if len(o.records[name]) == 0 {
		delete(o.records, name)
	}
}

func (o *others) save() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := o.write(ctx); err != nil {
		o.host.cfg.Logger.Warn("cannot note which plugin processes there are", "error", err)
	}
}

func (o *others) write(ctx context.Context) error {
	store := o.host.cfg.Store
	if store == nil {
		return nil
	}
	body, err := json.Marshal(o.records)
	if err == nil {
		err = store.Put(ctx, othersKey, body)
	}
	if err != nil {
		return fmt.Errorf("note which plugin processes there are: %w", err)
	}
	return nil
}

// endStrays ends processes that an earlier agent launched but could not store before
// it was killed, or whose plugins no longer exist. names are the existing plugins,
// whose processes are reattached.
func (o *others) endStrays(ctx context.Context, names []string) error {
	if o.host.cfg.Store == nil {
		return nil // nothing is stored, so they cannot be distinguished from other processes
	}
	known := map[int]bool{}
	for _, name := range names {
		rec, err := o.host.recorded(ctx, name)
		if err != nil {
			return err
		}
		if rec != nil {
			known[rec.PID] = true
		}
	}
	for _, p := range strays(o.host.socketDir, o.host.cfg.Args) {
		if !known[p.Pid] {
			o.host.cfg.Logger.Info("a plugin process that nobody knows is ended; its tasks are recovered in another", "pid", p.Pid)
			_ = p.Kill() // an error means that it has just ended
		}
		_ = p.Release() // nothing is done to it any more
	}
	return nil
}

// end ends the processes that an earlier agent left in the middle of an upgrade,
// except those that the host's records name as current.
func (o *others) end(ctx context.Context) error {
	store := o.host.cfg.Store
	if store == nil {
		return nil
	}
	body, err := store.Get(ctx, othersKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which plugin processes there were: %w", err)
	}
	left := map[string][]record{}
	if err := json.Unmarshal(body, &left); err != nil {
		return errdefs.Internalf("decode which plugin processes there were: %w", err)
	}
	var ending sync.WaitGroup
	for name, records := range left {
		serves, err := o.host.recorded(ctx, name)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if serves == nil || rec.PID != serves.PID {
				ending.Go(func() { o.host.endLeft(name, rec) })
			}
		}
	}
	ending.Wait()
	if err := store.Delete(ctx, othersKey); err != nil {
		return fmt.Errorf("forget plugin processes: %w", err)
	}
	return nil
}
