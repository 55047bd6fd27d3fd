// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicecheck_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicecheck"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	"github.com/drover-project/drover/sdk/errdefs"
)

// defective overrides some answers of a plugin that keeps the contract.
type defective struct {
	repeats bool
	hides   bool
	device.Device
	reserve func(*device.Reservation) (*device.Reservation, error)
	groups  func([]device.Group)
	stats   func([]device.GroupStats)
	task    func(device.Request) device.Request
	release func() error
}

func (d defective) ReserveForTask(ctx context.Context, r device.Request) (*device.Reservation, error) {
	if d.task != nil {
		r = d.task(r)
	}
	return d.Device.(device.TaskReserver).ReserveForTask(ctx, r)
}

func (d defective) Release(ctx context.Context, h device.Holder, ids []string) error {
	if d.release != nil {
		if err := d.release(); err != nil {
			return err
		}
	}
	return d.Device.(device.Releaser).Release(ctx, h, ids)
}

// plain hides the optional abilities of a plugin.
type plain struct{ device.Device }

func (d defective) Reserve(ctx context.Context, ids []string) (*device.Reservation, error) {
	r, err := d.Device.Reserve(ctx, ids)
	if d.reserve != nil {
		return d.reserve(r)
	}
	return r, err
}

func (d defective) Fingerprint(ctx context.Context) (<-chan device.Fingerprint, error) {
	in, err := d.Device.Fingerprint(ctx)
	if d.repeats && err == nil {
		in = repeated(ctx, in)
	}
	return changed(ctx, in, func(f device.Fingerprint) {
		if d.groups != nil {
			d.groups(f.Groups)
		}
	}), err
}

func (d defective) Stats(ctx context.Context, interval time.Duration) (<-chan []device.GroupStats, error) {
	in, err := d.Device.Stats(ctx, interval)
	return changed(ctx, in, func(s []device.GroupStats) {
		if d.stats != nil {
			d.stats(s)
		}
	}), err
}

// repeated sends each twice.
func repeated[V any](ctx context.Context, in <-chan V) <-chan V {
	out := make(chan V)
	go func() {
		defer close(out)
		for v := range in {
			for range 2 {
				select {
				case out <- v:
				case <-ctx.Done():
				}
			}
		}
	}()
	return out
}

func changed[V any](ctx context.Context, in <-chan V, change func(V)) <-chan V {
	out := make(chan V)
	go func() {
		defer close(out)
		for v := range in {
			change(v)
			select {
			case out <- v:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func TestADefectFailsTheCheckOfItsRule(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, d defective) conformance.Result {
		all := devicecheck.Checks()
		i := slices.IndexFunc(all, func(c devicecheck.Check) bool { return c.Name == name })
		return all[i].Run(t.Context(), devicecheck.Subject{
			Config: map[string]any{"dir": dir}, Timeout: 5 * time.Second,
			Connect: func(*conformance.T) (device.Device, func()) {
				d.Device = filedevice.New("file")
				if d.hides {
					return plain{d}, func() {}
				}
				return d, func() {}
			},
		})
	}
	for rule, d := range map[string]defective{
		"groups: an attribute of one device": {groups: func(g []device.Group) {
			g[0].Instances[0].Attributes = map[string]device.Attribute{"link": {}}
		}},
		"groups: a NUMA node that no machine has": {groups: func(g []device.Group) { g[0].Instances[0].NUMANode = device.NUMA(1 << 20) }},
		"info":           {hides: true},
		"fingerprint":    {repeats: true},
		"groups":         {groups: func(g []device.Group) { g[0].Attributes["size"] = device.Int(10, "bytes") }},
		"reserve":        {reserve: func(*device.Reservation) (*device.Reservation, error) { return &device.Reservation{}, nil }},
		"unknown-device": {reserve: func(*device.Reservation) (*device.Reservation, error) { return &device.Reservation{}, nil }},
		"reserve-for-task": {task: func(r device.Request) device.Request { // forgets what it does not know
			r.IDs = slices.DeleteFunc(r.IDs, func(id string) bool { return id == "no such device" })
			return r
		}},
		"release": {release: func() func() error { // refuses what it has released
			said := 0
			return func() error {
				if said++; said > 3 {
					return errdefs.NotFoundf("the task has no device")
				}
				return nil
			}
		}()},
		"stats": {stats: func(s []device.GroupStats) {
			s[0].Instances["a"] = device.Stats{Summary: "Size", Time: time.Now()}
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			name, _, _ := strings.Cut(rule, ":")
			if bad := run(name, d); bad.Outcome != conformance.Failed || len(bad.Problems) == 0 {
				t.Errorf("the check of the defect said %+v", bad)
			}
			if good := run(name, defective{}); good.Outcome != conformance.Passed {
				t.Errorf("without the defect it said %+v", good)
			}
		})
	}
}
