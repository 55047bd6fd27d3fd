// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devices_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/devices"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/sdk/errdefs"
)

// node is a node with two groups of devices, of which tests choose what fails.
type node struct {
	mu      sync.Mutex
	stored  []byte
	running map[string]bool
	told    []string
	failing map[string]bool // groups whose releases fail
	events  []string
	changed chan struct{}
	prints  []pluginhost.DeviceFingerprint
}

func newNode() *node {
	return &node{running: map[string]bool{}, failing: map[string]bool{}, changed: make(chan struct{})}
}

func (n *node) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *node) say() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.told, "; ")
}

func (n *node) Devices() ([]pluginhost.DeviceFingerprint, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.prints, n.changed
}

func (n *node) ReserveDevices(_ context.Context, h device.Holder, s device.Set, _ map[string]any) (*device.Reservation, error) {
	n.set(func() { n.told = append(n.told, fmt.Sprint("reserve ", s.Name, s.IDs, h.AllocID)) })
	return &device.Reservation{Env: map[string]string{s.Name: strings.Join(s.IDs, ",")}}, nil
}

func (n *node) ReleaseDevices(_ context.Context, h device.Holder, s device.Set) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing[s.Name] {
		return errdefs.Unavailablef("its plugin is away")
	}
	n.told = append(n.told, fmt.Sprint("release ", s.Name, s.IDs, h.AllocID))
	return nil
}

func (n *node) Get(context.Context, string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stored == nil {
		return nil, errdefs.NotFoundf("nothing")
	}
	return n.stored, nil
}

func (n *node) Put(_ context.Context, _ string, value []byte) error {
	n.set(func() { n.stored = value })
	return nil
}

// keep runs a keeper until stop is called.
func (n *node) keep(t *testing.T) (k *devices.Keeper, stop func()) {
	t.Helper()
	k, err := devices.New(t.Context(), devices.Config{
		Plugins: n, Store: n, Now: time.Now, Logger: hclog.NewNullLogger(),
		InUse: func(allocID, _ string) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.running[allocID]
		},
		NoteTask: func(allocID, _ string, ev model.TaskEvent) {
			n.set(func() { n.events = append(n.events, allocID+": "+ev.Message) })
		},
		NoteNode: func(ev *model.NodeEvent) { n.set(func() { n.events = append(n.events, "node: "+ev.Message) }) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	return k, func() { cancel(); <-ended }
}

func ask(name string, ids ...string) alloc.DeviceAsk {
	return alloc.DeviceAsk{Set: device.Set{Vendor: "v", Type: "t", Name: name, IDs: ids}}
}

func task(allocID string) device.Holder { return device.Holder{AllocID: allocID, Task: "web"} }

func (n *node) reserve(t *testing.T, k *devices.Keeper, allocID string, asks ...alloc.DeviceAsk) {
	t.Helper()
	n.set(func() { n.running[allocID] = true })
	if _, err := k.Reserve(t.Context(), task(allocID), asks); err != nil {
		t.Fatal(err)
	}
}

func (n *node) end(k *devices.Keeper, allocID string) {
	n.set(func() { n.running[allocID] = false })
	k.Look()
	synctest.Wait()
}

func TestAReleaseIsRepeatedUntilItSucceedsAndOnlyForWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.failing["b"] = true
		k, stop := n.keep(t)
		n.reserve(t, k, "a1", ask("a", "1"), ask("b", "2", "3"))
		n.reserve(t, k, "a1", ask("a", "1"), ask("b", "2", "3")) // a restart of the task
		n.end(k, "a1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := k.Reserve(ctx, task("a2"), []alloc.DeviceAsk{ask("b", "3")})
		cancel()
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), `device 3 of v/t/b is not released yet by task "web" of alloc a1: its plugin is away`) {
			t.Errorf("another task got %v", err)
		}
		stop()
		k, stop = n.keep(t) // another agent
		defer stop()
		synctest.Wait()
		n.set(func() { n.failing["b"] = false })
		time.Sleep(time.Minute) // of the test's own clock
		synctest.Wait()
		n.reserve(t, k, "a2", ask("b", "3"))
		const want = "reserve a[1]a1; reserve b[2 3]a1; reserve a[1]a1; reserve b[2 3]a1; release a[1]a1; release b[2 3]a1; reserve b[3]a2"
		if got := n.say(); got != want {
			t.Errorf("the plugins were told %s", got)
		}
	})
}

func TestATaskWaitsForTheOneThatUsesItsDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		k, stop := n.keep(t)
		defer stop()
		n.reserve(t, k, "a1", ask("a", "1"))
		var wait sync.WaitGroup
		wait.Go(func() { n.reserve(t, k, "a2", ask("a", "1")) })
		n.reserve(t, k, "a3", ask("a", "2"))
		synctest.Wait()
		n.end(k, "a1")
		wait.Wait()
		if got, want := n.say(), "reserve a[1]a1; reserve a[2]a3; release a[1]a1; reserve a[1]a2"; got != want {
			t.Errorf("the plugins were told %s", got)
		}
	})
}

func TestAReleaseThatFailsForADayIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.failing["a"] = true
		k, stop := n.keep(t)
		defer stop()
		n.reserve(t, k, "a1", ask("a", "1"))
		n.end(k, "a1")
		time.Sleep(25 * time.Hour)
		n.reserve(t, k, "a2", ask("a", "1"))
		if got, want := n.say(), "reserve a[1]a1; reserve a[1]a2"; got != want {
			t.Errorf("the plugins were told %s", got)
		}
	})
}

func TestAChangeOfHealthIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		show := func(healthy bool, why string) {
			n.set(func() {
				n.prints = []pluginhost.DeviceFingerprint{{Groups: []device.Group{{Vendor: "v", Type: "t", Name: "a", Instances: []device.Instance{
					{ID: "1", Healthy: healthy, HealthDescription: why}, {ID: "2", Healthy: true},
				}}}}}
				close(n.changed)
				n.changed = make(chan struct{})
			})
			synctest.Wait()
		}
		k, stop := n.keep(t)
		n.reserve(t, k, "a1", ask("a", "1"))
		n.reserve(t, k, "a2", ask("a", "2"))
		show(true, "")
		show(false, "too hot")
		show(false, "still too hot")
		stop()
		_, stop = n.keep(t)
		defer stop()
		synctest.Wait()
		n.set(func() { n.prints = nil }) // its plugin is away
		show(true, "")
		want := "node: Device 1 of v/t/a is not healthy: too hot; a1: Device 1 of v/t/a is not healthy: too hot; node: Device 1 of v/t/a is healthy again; a1: Device 1 of v/t/a is healthy again"
		if got := strings.Join(n.events, "; "); got != want {
			t.Errorf("events: %s", got)
		}
	})
}

func TestATaskWhoseDeviceDisappearsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		show := func(ids ...string) {
			n.set(func() {
				n.prints = nil // its plugin is away
				if len(ids) > 0 {
					g := device.Group{Vendor: "v", Type: "t", Name: "a"}
					for _, id := range ids {
						g.Instances = append(g.Instances, device.Instance{ID: id, Healthy: true})
					}
					n.prints = []pluginhost.DeviceFingerprint{{Groups: []device.Group{g}}}
				}
				close(n.changed)
				n.changed = make(chan struct{})
			})
			synctest.Wait()
		}
		k, stop := n.keep(t)
		defer stop()
		show("1", "2", "3")
		n.reserve(t, k, "a1", ask("a", "1"))
		n.reserve(t, k, "a2", ask("a", "2"))
		n.end(k, "a2")
		show("3")
		show("3")
		show()
		show("1", "3")
		want := "node: Device 1 of v/t/a is not healthy: its plugin does not list it any more; a1: Device 1 of v/t/a is not healthy: its plugin does not list it any more; node: Device 1 of v/t/a is healthy again; a1: Device 1 of v/t/a is healthy again"
		if got := strings.Join(n.events, "; "); got != want {
			t.Errorf("events: %s", got)
		}
	})
}

func TestATaskWhoseOnlyDeviceOfTheNodeDisappearsIsToldAlsoAfterARestartOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		show := func(p pluginhost.DeviceFingerprint) {
			p.Name = "toys"
			n.set(func() {
				n.prints = []pluginhost.DeviceFingerprint{{Name: "others", FoundNone: true}, p}
				close(n.changed)
				n.changed = make(chan struct{})
			})
			synctest.Wait()
		}
		there := pluginhost.DeviceFingerprint{Groups: []device.Group{{Vendor: "v", Type: "t", Name: "a", Instances: []device.Instance{{ID: "1", Healthy: true}}}}}
		k, stop := n.keep(t)
		show(there)
		n.reserve(t, k, "a1", ask("a", "1"))
		show(pluginhost.DeviceFingerprint{Problem: "its process has ended"})
		if len(n.events) > 0 {
			t.Errorf("while the plugin is away: %v", n.events)
		}
		show(pluginhost.DeviceFingerprint{FoundNone: true, Problem: "nothing is plugged in"})
		show(there)
		stop()
		_, stop = n.keep(t)
		defer stop()
		show(pluginhost.DeviceFingerprint{FoundNone: true, Problem: "nothing is plugged in"})
		const gone, back = "Device 1 of v/t/a is not healthy: its plugin does not list it any more", "Device 1 of v/t/a is healthy again"
		want := "node: " + gone + "; a1: " + gone + "; node: " + back + "; a1: " + back + "; node: " + gone + "; a1: " + gone
		if got := strings.Join(n.events, "; "); got != want {
			t.Errorf("events: %s", got)
		}
	})
}

// TestADeviceThatFlapsDoesNotPushOutOtherEventsOfTheNode is about the events that servers keep.
func TestADeviceThatFlapsDoesNotPushOutOtherEventsOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		kept := []*model.NodeEvent{{Message: "Node registered"}}
		k, err := devices.New(t.Context(), devices.Config{
			Plugins: n, Store: n, Now: time.Now, Logger: hclog.NewNullLogger(),
			InUse: func(string, string) bool { return false }, NoteTask: func(string, string, model.TaskEvent) {},
			NoteNode: func(ev *model.NodeEvent) {
				n.set(func() { kept = model.NewestNodeEvents(append(kept, ev)) })
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.Run(ctx) }()
		for round := range 40 {
			n.set(func() {
				n.prints = []pluginhost.DeviceFingerprint{{Name: "p", Groups: []device.Group{{Vendor: "v", Type: "t", Name: "a", Instances: []device.Instance{{ID: "1", Healthy: round%2 == 0}}}}}}
				close(n.changed)
				n.changed = make(chan struct{})
			})
			synctest.Wait()
		}
		cancel()
		<-ended
		if len(kept) != model.MaxNodeEvents || kept[0].Message != "Node registered" {
			t.Errorf("of the node's events %d are kept, the first is %q", len(kept), kept[0].Message)
		}
	})
}
