// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeDevices answers reservations with an error for so many tries.
type fakeDevices struct {
	failures atomic.Int64
	err      error
}

func (d *fakeDevices) Reserve(context.Context, device.Holder, []alloc.DeviceAsk) (*device.Reservation, error) {
	if d.failures.Add(-1) >= 0 {
		return nil, d.err
	}
	return &device.Reservation{Env: map[string]string{"TOY": "1"}}, nil
}

func (d *fakeDevices) Look() {}

// withDevice is an alloc whose task has a device and no restarts.
func withDevice() *model.Allocation {
	a := newAlloc(newTask("web"))
	a.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"web": {
		Devices: []*model.AllocatedDeviceResource{{Vendor: "acme", Type: "toy", Name: "t1", DeviceIDs: []string{"1"}}},
	}}}
	return a
}

func TestADevicePluginThatIsBeingRestartedUsesUpNoRestartsOfATask(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		d := &fakeDevices{err: errdefs.Unavailablef("error reading from server: EOF")}
		d.failures.Store(5)
		b.cfg.Devices = d
		b.run(withDevice())
		time.Sleep(30 * time.Second)
		synctest.Wait()
		b.wants("web", model.AllocClientStatusRunning)
	})
}

func TestADevicePluginThatStaysAwayFailsTheStartOfATask(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		d := &fakeDevices{err: errdefs.Unavailablef("error reading from server: EOF")}
		d.failures.Store(1 << 40)
		b.cfg.Devices = d
		b.run(withDevice())
		time.Sleep(time.Minute)
		b.hasEvent("web", `step "devices" has taken 30s; it ends at the latest after 2m0s: error reading from server: EOF`)
		time.Sleep(b.cfg.Limits.Disk)
		synctest.Wait()
		b.wants("", model.AllocClientStatusFailed)
		b.hasEvent("web", `step "devices" did not end within 2m0s: error reading from server: EOF`)
	})
}

func TestADeviceThatItsPluginRefusesFailsTheStartOfATaskAtOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		d := &fakeDevices{err: errdefs.FailedPreconditionf("the device is broken")}
		d.failures.Store(1)
		b.cfg.Devices = d
		b.run(withDevice())
		synctest.Wait()
		b.wants("", model.AllocClientStatusFailed)
		b.hasEvent("web", "the device is broken")
	})
}
