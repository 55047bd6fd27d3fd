// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Others are the processes of plugins besides the current ones: on trial, or with
// calls in progress. They are stored, so that the next agent can end them if this one
// is killed.
type Others struct {
	launcher *Launcher

	mu      sync.Mutex
	records map[string][]record // by plugin
}

const othersKey = "pluginhost-others"

func newOthers(l *Launcher) *Others { return &Others{launcher: l, records: map[string][]record{}} }

// Add stores a process before the plugin has two.
func (o *Others) Add(ctx context.Context, name string, p *Process) error {
	rec, ok := p.record()
	if !ok {
		return errdefs.Unavailablef("plugin %s: ended during its start", p.File.Path)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.ContainsFunc(o.records[name], func(r record) bool { return r.PID == rec.PID }) {
		return nil
	}
	o.records[name] = append(o.records[name], rec)
	if err := o.write(ctx); err != nil {
		o.remove(name, p.PID)
		return err
	}
	return nil
}

// Drop removes one process: it has ended, or is the only one.
func (o *Others) Drop(name string, p *Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(name, p.PID)
	o.save()
}

// Clear forgets the records of an ended old process and of the serving process.
func (o *Others) Clear(name string, old *Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(name, old.PID)
	if len(o.records[name]) == 1 {
		delete(o.records, name)
	}
	o.save()
}

func (o *Others) remove(name string, pid int) {
	o.records[name] = slices.DeleteFunc(o.records[name], func(r record) bool { return r.PID == pid })
	if len(o.records[name]) == 0 {
		delete(o.records, name)
	}
}

func (o *Others) save() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := o.write(ctx); err != nil {
		o.launcher.cfg.Logger.Warn("cannot store the list of plugin processes", "error", err)
	}
}

func (o *Others) write(ctx context.Context) error {
	store := o.launcher.cfg.Store
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

// end ends the processes that an earlier agent left in the middle of an upgrade,
// except those that the records name as current.
func (o *Others) end(ctx context.Context) error {
	store := o.launcher.cfg.Store
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
		serves, err := o.launcher.recorded(ctx, name)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if serves == nil || rec.PID != serves.PID {
				ending.Go(func() { o.launcher.endLeft(name, rec) })
			}
		}
	}
	ending.Wait()
	if err := store.Delete(ctx, othersKey); err != nil {
		return fmt.Errorf("forget plugin processes: %w", err)
	}
	return nil
}
