// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/plugin"
)

// part holds what one process serves of one kind.
type part interface {
	// open configures it and admits calls, until ctx ends.
	open(ctx context.Context, configs map[string]map[string]any)
	// prepare makes it ready beside the current holder of its names: configured, tasks
	// recovered, fingerprinted and not worse. It admits no calls yet. ready limits the
	// preparation; ctx is the process's.
	prepare(ctx, ready context.Context, configs map[string]map[string]any) error
	// takeOver admits calls to it, after prepare.
	takeOver(ready context.Context) error
	// detach holds back its calls; ctx of open must have ended.
	detach(reason error)
	// unneeded reports whether nobody uses it, and nothing that it serves is present
	// on this machine (for at least grace if it was before) or it is started on
	// demand.
	unneeded(now time.Time, grace time.Duration) bool
	// there reports whether anything that it serves is present on this machine.
	there() bool
	// retire holds back calls because of reason, unless one is in progress; then it
	// changes nothing and returns false. ctx is open's.
	retire(ctx context.Context, reason error) bool
	// yield ends the followers of a process, whose ctx of open has ended, before
	// another process that serves the names in next takes over.
	yield(next []string)
	// drained returns when no call is in progress in the processes that were replaced.
	drained(ctx context.Context) error
	// abandon ends what prepare has begun; ctx of prepare must have ended.
	abandon()
	names() []string
}

// known are the contracts that this host supports.
var known = []plugin.Kind{driver.KindV1, driver.KindNomad, device.KindV1, device.KindNomad, stats.KindV1}

// attach asks a process for all that it serves and reserves the names; see part.
func (h *Host) attach(ctx context.Context, pluginName string, p *process.Process) ([]part, error) {
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	kinds, mismatches, err := choose(p.Info.Kinds, known)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.File.Path, err)
	}
	for _, m := range mismatches {
		h.cfg.Logger.Warn("a part of the plugin cannot be used", "plugin", pluginName, "reason", m)
	}
	var parts []part
	for _, kind := range kinds {
		var one part
		switch kind {
		case driver.KindV1, driver.KindNomad:
			one, err = h.drivers.attach(ctx, pluginName, p)
		case device.KindV1, device.KindNomad:
			one, err = h.devices.attach(ctx, pluginName, p)
		case stats.KindV1:
			one, err = h.collectors.attach(ctx, pluginName, p)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, one)
	}
	p.Confine()
	return parts, nil
}

// firstFingerprint is how long a start waits for the first fingerprint.
const firstFingerprint = 2 * time.Second

// untilFirst starts follow and returns when it has called first, so that the first
// fingerprints are available when a start returns, unless one is slow.
func untilFirst(ctx context.Context, watchers *sync.WaitGroup, follow func(first func())) {
	arrived := make(chan struct{})
	watchers.Go(func() { follow(sync.OnceFunc(func() { close(arrived) })) })
	select {
	case <-arrived:
	case <-ctx.Done():
	case <-time.After(firstFingerprint):
	}
}

// configOf returns the block for a name that a plugin serves: the block with that
// name, or, as in Nomad, with the name of the file.
func configOf(configs map[string]map[string]any, name, pluginName string) map[string]any {
	if c := configs[name]; c != nil {
		return c
	}
	return configs[pluginName]
}

func names(parts []part, of func(part) bool) []string {
	var out []string
	for _, p := range parts {
		if of(p) {
			out = append(out, p.names()...)
		}
	}
	slices.Sort(out)
	return out
}

func isDriver(p part) bool { _, ok := p.(*driverSession); return ok }

func isDevice(p part) bool { _, ok := p.(*deviceSession); return ok }

func isCollector(p part) bool { _, ok := p.(*collectorSession); return ok }
