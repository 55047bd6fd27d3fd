// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/errdefs"
)

// prepare implements part: each collector must deliver one sample.
func (s *collectorSession) prepare(_, ready context.Context, configs map[string]map[string]any) error {
	for _, b := range s.backends {
		info := b.Info()
		if err := configureBlock(ready, info.Name, info.ConfigSchema, configOf(configs, info.Name, s.plugin), b.SetConfig); err != nil {
			return err
		}
		if err := probe(ready, b); err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("collector %q: %w", info.Name, err))
		}
	}
	return nil
}

// probe waits for one sample.
func probe(ctx context.Context, b stats.Backend) error {
	once, cancel := context.WithCancel(ctx)
	samples, err := b.Collect(once, time.Hour)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range samples { // to its end
		}
	}()
	select {
	case _, ok := <-samples:
		if !ok {
			return errdefs.Unavailablef("its samples ended before the first")
		}
		return nil
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("no sample in time: %w", ctx.Err())
	}
}

// takeOver implements part: the new process is read once the old one's streams end.
func (s *collectorSession) takeOver(context.Context) error {
	for _, b := range s.backends {
		s.serve(b, nil)
	}
	return nil
}

// yield implements part: streams end with their process.
func (s *collectorSession) yield([]string) {}

// drained implements part: streams are not calls that could be lost.
func (s *collectorSession) drained(context.Context) error { return nil }

// abandon implements part.
func (s *collectorSession) abandon() {}

// release frees the names of a plugin that are not in keep.
func (c *collectors) release(pluginName string, keep []string) {
	var gone []*collectorEntry
	c.mu.Lock()
	for name, e := range c.byName {
		if e.plugin == pluginName && !slices.Contains(keep, name) {
			gone = append(gone, e)
			delete(c.byName, name)
		}
	}
	c.mu.Unlock()
	for _, e := range gone { // they may be asking for c.mu
		e.feed.Close()
	}
}
