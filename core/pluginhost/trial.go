// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// driverTrial is one driver of a process that is to take over.
type driverTrial struct {
	backend driver.Backend
	trial   *driver.Trial
	prints  <-chan driver.Fingerprint
	first   driver.Fingerprint
	follow  func() // takes up the fingerprints that come after the first
}

// prepare implements part: it makes the drivers ready beside the current ones.
func (s *driverSession) prepare(ctx, ready context.Context, configs map[string]map[string]any) error {
	for _, b := range s.backends {
		info := b.Info()
		if err := configureBlock(ready, info.Name, info.ConfigSchema, configOf(configs, info.Name, s.plugin), b.SetConfig); err != nil {
			return err
		}
		e := s.drivers.entryOf(info.Name)
		s.drivers.mu.Lock()
		before := e.print
		s.drivers.mu.Unlock()
		works := s.drivers.works
		trial, err := e.proxy.Try(ready, b, func() { works.recovered(s.plugin) })
		if err != nil {
			return err
		}
		one := &driverTrial{backend: b, trial: trial}
		if one.prints, err = b.Fingerprint(ctx); err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("driver %q: cannot be fingerprinted: %w", info.Name, err))
		}
		one.follow = func() { s.follow(ctx, b, one.prints, func() {}) }
		s.trials = append(s.trials, one)
		if one.first, err = firstOf(ready, one.prints); err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("driver %q: %w", info.Name, err))
		}
		if before.Health == driver.HealthHealthy && one.first.Health != driver.HealthHealthy {
			return errdefs.FailedPreconditionf("driver %q: the version that runs is healthy and the new one is %s: %s",
				info.Name, one.first.Health, one.first.HealthDescription)
		}
	}
	return nil
}

// firstOf waits for the first fingerprint.
func firstOf[T any](ctx context.Context, prints <-chan T) (T, error) {
	select {
	case f, ok := <-prints:
		if !ok {
			return f, errdefs.Unavailablef("its fingerprints ended before the first")
		}
		return f, nil
	case <-ctx.Done():
		var none T
		return none, errdefs.DeadlineExceededf("no fingerprint in time: %w", ctx.Err())
	}
}

// takeOver implements part: it switches driver by driver.
func (s *driverSession) takeOver(ready context.Context) error {
	for _, one := range s.trials {
		if err := one.trial.Switch(ready); err != nil {
			return err
		}
		info := one.backend.Info()
		e := s.drivers.entryOf(info.Name)
		s.drivers.mu.Lock()
		e.describe(info, s.version)
		s.drivers.mu.Unlock()
		s.drivers.serves(e)
		s.drivers.update(info.Name, printed(one.first))
		s.presence.note(info.Name, one.first.Health != driver.HealthUndetected)
		s.watchers.Go(one.follow)
	}
	s.trials = nil
	return nil
}

// yield implements part.
func (s *driverSession) yield(next []string) {
	s.watchers.Wait()
	for _, name := range s.names() {
		if !slices.Contains(next, name) {
			s.drivers.entryOf(name).proxy.Detach(errdefs.Unavailablef("plugin %q no longer serves driver %q", s.plugin, name))
		}
	}
}

// drained implements part: it waits for calls in replaced processes.
func (s *driverSession) drained(ctx context.Context) error {
	var left []error
	for _, name := range s.names() {
		left = append(left, s.drivers.entryOf(name).proxy.Drained(ctx))
	}
	return errors.Join(left...)
}

// abandon implements part: it drains the fingerprints of a failed trial.
func (s *driverSession) abandon() {
	for _, one := range s.trials {
		for range one.prints {
		}
	}
	s.trials = nil
}

func (d *drivers) entryOf(name string) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byName[name]
}

// release frees the names of a plugin that are not in keep. Tasks of a released driver
// stay known for the next process that serves its name.
func (d *drivers) release(pluginName string, keep []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, e := range d.byName {
		if e.plugin == pluginName && !slices.Contains(keep, name) {
			e.plugin, e.attached, e.refused, e.print = "", 0, nil, DriverFingerprint{}
			if e.proxy != nil {
				e.proxy.Refuse(nil)
			}
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// tasks returns the number of tasks of a plugin's drivers, except those in but.
func (d *drivers) tasks(pluginName string, but []string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, e := range d.byName {
		if e.plugin == pluginName && e.proxy != nil && !slices.Contains(but, name) {
			n += e.proxy.Tasks()
		}
	}
	return n
}

// refuse makes the drivers of a plugin reject starts with reason; nil allows them
// again.
func (d *drivers) refuse(pluginName string, reason error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.byName {
		if e.plugin == pluginName && e.proxy != nil {
			e.refused = reason
			e.proxy.Refuse(reason)
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// deviceTrial is one device plugin of a process that is to take over.
type deviceTrial struct {
	backend device.Backend
	prints  <-chan device.Fingerprint
	first   device.Fingerprint
	follow  func() // takes up the fingerprints that come after the first
}

// prepare implements part: it makes the device plugins ready beside the current ones.
func (s *deviceSession) prepare(ctx, ready context.Context, configs map[string]map[string]any) error {
	for _, b := range s.backends {
		info := b.Info()
		if err := configureBlock(ready, info.Name, info.ConfigSchema, configOf(configs, info.Name, s.plugin), b.SetConfig); err != nil {
			return err
		}
		prints, err := b.Fingerprint(ctx)
		if err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("device plugin %q: cannot be fingerprinted: %w", info.Name, err))
		}
		one := &deviceTrial{backend: b, prints: prints}
		one.follow = func() { s.follow(ctx, b, prints, func() {}) }
		s.trials = append(s.trials, one)
		if one.first, err = firstOf(ready, prints); err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("device plugin %q: %w", info.Name, err))
		}
		s.devices.mu.Lock()
		before := s.devices.byName[info.Name].print
		s.devices.mu.Unlock()
		if len(before.Groups) > 0 && len(one.first.Groups) == 0 {
			return errdefs.FailedPreconditionf("device plugin %q: the version that runs has devices and the new one finds none: %s", info.Name, one.first.Problem)
		}
	}
	return nil
}

// takeOver lets calls through to the new process.
func (s *deviceSession) takeOver(context.Context) error {
	for _, one := range s.trials {
		name := one.backend.Info().Name
		s.devices.update(name, func(e *deviceEntry) {
			e.describe(name, s.version)
			e.backend, e.session = one.backend, s
			e.feed.Retry()
			found(one.first)(e)
		})
		s.presence.note(name, len(one.first.Groups) > 0)
		s.watchers.Go(one.follow)
	}
	s.trials = nil
	return nil
}

// yield implements part.
func (s *deviceSession) yield([]string) { s.watchers.Wait() }

// drained implements part: it waits for reservations in progress.
func (s *deviceSession) drained(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { s.calls.Wait(); close(ended) }() // each is bounded
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("devices are still being reserved in the old process: %w", ctx.Err())
	}
}

// abandon implements part: it drains the fingerprints of a failed trial.
func (s *deviceSession) abandon() {
	for _, one := range s.trials {
		for range one.prints {
		}
	}
	s.trials = nil
}

// refuse makes the devices of a plugin unavailable with reason; nil offers them again.
func (d *devices) refuse(pluginName string, reason error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.byName {
		if e.plugin == pluginName {
			e.refused = reason
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// release frees the names of a plugin that are not in keep.
func (d *devices) release(pluginName string, keep []string) {
	var gone []*deviceFeed
	d.mu.Lock()
	for name, e := range d.byName {
		if e.plugin == pluginName && !slices.Contains(keep, name) {
			gone = append(gone, e.feed)
			delete(d.byName, name)
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	for _, f := range gone { // they may be asking for d.mu
		f.Close()
	}
}
