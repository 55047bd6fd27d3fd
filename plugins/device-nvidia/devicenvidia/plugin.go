// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package devicenvidia is the device plugin nvidia-gpu: it offers NVIDIA GPUs and
// their MIG instances to tasks. It owns their mapping to Drover's device contract:
// groups, attributes, health, reservations and statistics. The C interface is in
// package nvml. Which alloc has which GPU is recorded in the allocs. Only
// plugins/device-nvidia imports it.
package devicenvidia

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// Version is the plugin's version.
const Version = "0.1.0"

// Name is the plugin's name in the agent's configuration. The reference's plugin has
// the same name.
const Name = "nvidia-gpu"

// Main runs the plugin.
func Main() error {
	d := New(plugin.Logger("device-nvidia"))
	return plugin.Serve(plugin.Info{Name: "device-nvidia", Version: Version}, device.Service(d))
}

// config is the block plugin "nvidia-gpu" { config { } }.
type config struct {
	Enabled bool     `json:"enabled"`
	Ignored []string `json:"ignored_gpu_ids"`
	Period  string   `json:"fingerprint_period"`
	Library string   `json:"library"`
	CDI     bool     `json:"cdi"`
	Shares  int      `json:"shares"`
	MIG     []string `json:"mig_profiles"`

	period time.Duration
}

// leastPeriod is the shortest period, so that a wrong unit in the config does not
// keep a CPU core busy.
const leastPeriod = 100 * time.Millisecond

func configSchema() schema.Schema {
	return schema.Schema{Attributes: []schema.Attribute{
		{Name: "enabled", Type: schema.Bool, Default: true, Description: "false offers no GPU"},
		{Name: "ignored_gpu_ids", Type: schema.ListString, Default: []any{}, Description: "UUIDs of GPUs and MIG instances that tasks do not get"},
		{Name: "fingerprint_period", Type: schema.String, Default: "1m", Description: "interval at which the GPUs are scanned, such as 30s"},
		{Name: "library", Type: schema.String, Description: "path of libnvidia-ml.so.1 where the dynamic linker does not find it"},
		{Name: "shares", Type: schema.Number, Default: 1, Description: "how many tasks may use a GPU or MIG instance at the same time, in turns (time slicing)"},
		{Name: "mig_profiles", Type: schema.ListString, Default: []any{}, Description: "how each GPU with MIG mode on is divided, such as 3g.40gb and twice 2g.20gb; the instances are made when a task gets them and removed after it"},
		{Name: "cdi", Type: schema.Bool, Default: true, Description: "pass GPUs by their names in the Container Device Interface if this machine has a specification"},
	}}
}

// Device implements device.Device.
type Device struct {
	log  hclog.Logger
	nvml *asker
	root string // prefix of all paths of the machine; for tests

	mu      sync.Mutex
	config  config
	changed chan struct{} // closed and replaced when config or xids change
	last    *inventory    // result of the last scan
	xids    map[string]uint64
}

var _ device.Device = (*Device)(nil)

// New returns the plugin. It opens the library at the first call.
func New(log hclog.Logger) *Device {
	return &Device{
		log: log, nvml: newAsker(nvml.Open), changed: make(chan struct{}), xids: map[string]uint64{},
		config: config{Enabled: true, CDI: true, Shares: 1, period: time.Minute},
	}
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return device.Info{Name: Name, ConfigSchema: configSchema()} }

// SetConfig implements device.Device.
func (d *Device) SetConfig(_ context.Context, body []byte) error {
	var c config
	if err := schema.Unmarshal(body, &c); err != nil {
		return err
	}
	var err error
	if c.period, err = time.ParseDuration(c.Period); err != nil || c.period < leastPeriod {
		return errdefs.InvalidArgumentf("fingerprint_period: %q is not a duration of at least %s, such as 30s", c.Period, leastPeriod)
	}
	if c.Shares < 1 || c.Shares > maxShares {
		return errdefs.InvalidArgumentf("shares: %d is not between 1 and %d", c.Shares, maxShares)
	}
	if len(c.MIG) > maxProfiles {
		return errdefs.InvalidArgumentf("mig_profiles: a GPU has at most %d instances, and these are %d", maxProfiles, len(c.MIG))
	}
	if len(c.MIG) > 0 && c.Shares > 1 {
		return errdefs.InvalidArgumentf("shares: an instance of mig_profiles is made for one task; leave out one of the two")
	}
	d.nvml.use(c.Library)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	d.news()
	return nil
}

// news wakes the goroutines that wait for a change. The caller holds d.mu.
func (d *Device) news() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Device) now() (config, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config, d.changed
}

// Fingerprint implements device.Device.
func (d *Device) Fingerprint(ctx context.Context) (<-chan device.Fingerprint, error) {
	out := make(chan device.Fingerprint)
	var watcher sync.WaitGroup
	watcher.Go(func() { d.watchXids(ctx) })
	go func() {
		defer close(out)
		defer watcher.Wait()
		var last device.Fingerprint
		for sent := false; ctx.Err() == nil; {
			c, changed := d.now()
			f := d.fingerprint(ctx, c)
			if ctx.Err() == nil && (!sent || !same(f, last)) {
				select {
				case out <- f:
					last, sent = f, true
				case <-ctx.Done():
				}
			}
			wait(ctx, c.period, changed)
		}
	}()
	return out, nil
}

// wait returns after the period, when changed is closed, or when ctx ends.
func wait(ctx context.Context, period time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	}
}

func (d *Device) fingerprint(ctx context.Context, c config) device.Fingerprint {
	if !c.Enabled {
		return device.Fingerprint{Problem: "it is turned off: enabled = false in its config"}
	}
	inv, err := d.scan(ctx, c)
	f := device.Fingerprint{Groups: inv.groups(c.Shares)}
	switch {
	case err != nil:
		f.Problem = err.Error()
	case len(f.Groups) == 0:
		f.Problem = "the NVIDIA driver is there and has no GPU for tasks"
	case len(c.MIG) > 0 && !inv.divided():
		f.Problem = "mig_profiles has no effect, since no GPU has its MIG mode on; turn it on (nvidia-smi -i 0 -mig 1) or take mig_profiles out"
	}
	return f
}
