// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestADriverHasAnInstanceOfTheAdapterWhileItsTaskRuns(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		synctest.Wait()
		b.wants("without a task the instances", b.host.instances(), "")
		end := b.k.Begin(b.driver("a1", model.CSIPluginMonolith))
		synctest.Wait()
		b.wants("the instances", b.host.instances(), "disk")
		b.wants("events", b.said(), "a1: Plugin became healthy: plugin: disk")
		b.wants("the report", b.health(), "controller disk of a1 true, node disk of a1 true")
		config := b.host.ran[0].Config
		if config["controller"] != true || config["node"] != true || config["host_dir"] != nil || !strings.HasSuffix(config["endpoint"].(string), "/csi.sock") {
			t.Errorf("config %v", config)
		}
		b.host.says("disk", func(p *pluginhost.VolumeFingerprint) { p.Problem = "the disk is on fire" })
		synctest.Wait()
		b.wants("events", b.said(), "a1: Plugin became unhealthy: plugin: disk: the disk is on fire")
		b.wants("the report", b.health(), "controller disk of a1 false, node disk of a1 false")
		b.host.says("disk", func(p *pluginhost.VolumeFingerprint) { p.Problem = "" })
		synctest.Wait()
		b.wants("events", b.said(), "a1: Plugin became healthy: plugin: disk")
		end(true)
		synctest.Wait()
		b.wants("after the end of the task the instances", b.host.instances(), "")
		b.wants("while its alloc lives the report", b.health(), "controller disk of a1 false, node disk of a1 false")
		b.bury("a1")
		synctest.Wait()
		b.wants("after the end of its alloc the report", b.health(), "")
		if len(b.failed) > 0 {
			t.Errorf("tasks failed: %q", b.failed)
		}
	})
}

func TestNobodyWaitsUntilTheHealthOfADriverIsOnDisk(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		writes, end := make(chan struct{}), make(chan struct{})
		b.store.onPut = sync.OnceFunc(func() { close(writes); <-end })
		defer b.k.Begin(b.driver("a1", model.CSIPluginNode))(true)
		<-writes
		if _, nodes, _ := b.k.Offered(); nodes["disk"] == nil {
			t.Error("the driver is not offered")
		}
		close(end)
	})
}

func TestADriverThatDoesNotAnswerInTimeIsEnded(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.host.answers.Problem = "the driver cannot be asked whether it is ready: nobody listens"
		end := b.k.Begin(b.driver("a1", model.CSIPluginNode))
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if len(b.failed) > 0 || b.said() != "" || b.health() != "" {
			t.Errorf("before its health_timeout: failed %q, report %q", b.failed, b.health())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("the end", strings.Join(b.failed, "; "), `a1: Plugin became unhealthy: CSI driver "disk" has not become healthy within its health_timeout of 30s: the driver cannot be asked whether it is ready: nobody listens`)
		end(true)
		synctest.Wait()
	})
}

func TestADriverIsNotEndedBecauseItsAgentWasRestarted(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.k.Begin(b.driver("a1", model.CSIPluginMonolith))
		synctest.Wait()
		b.said()
		b.close()
		delete(b.host.prints, "disk") // an agent ends its instances
		b.host.fails = errdefs.NotFoundf("the plugin csi is gone")
		b.open()
		b.wants("before it was asked, the report", b.health(), "controller disk of a1 false, node disk of a1 false")
		d := b.driver("a1", model.CSIPluginMonolith)
		d.Healthy = true
		b.k.Begin(d)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(b.failed) > 0 {
			t.Errorf("ended: %q", b.failed)
		}
		if _, nodes, _ := b.k.Offered(); !strings.Contains(nodes["disk"].HealthDescription, "the plugin csi is gone") {
			t.Errorf("the report says %q", nodes["disk"].HealthDescription)
		}
		b.host.change(func() { b.host.fails = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.wants("once the adapter is there, the report", b.health(), "controller disk of a1 true, node disk of a1 true")
	})
}

func TestOneTaskOfSeveralServesADriverAndTheNextTakesOver(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		first := b.k.Begin(b.driver("a1", model.CSIPluginController))
		synctest.Wait()
		second := b.k.Begin(b.driver("a2", model.CSIPluginController))
		node := b.k.Begin(b.driver("a3", model.CSIPluginNode))
		synctest.Wait()
		b.wants("the report", b.health(), "controller disk of a1 true, node disk of a3 true")
		if n := len(strings.Fields(b.host.instances())); n != 2 {
			t.Errorf("%d instances: %s", n, b.host.instances())
		}
		if got := b.said(); !strings.Contains(got, `a2: Task hook message: another task of this node serves CSI driver "disk"`) {
			t.Errorf("events %q", got)
		}
		first(true)
		synctest.Wait()
		b.wants("after the first has ended, the report", b.health(), "controller disk of a2 true, node disk of a3 true")
		second(true)
		node(true)
		synctest.Wait()
		b.wants("at the end the instances", b.host.instances(), "")
	})
}

func TestTwoDriversWithOneIDTheSecondIsRefused(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.k.Begin(b.driver("a1", model.CSIPluginNode))
		synctest.Wait()
		b.wants("the report of the first", b.health(), "node disk of a1 true")
		b.host.change(func() { b.host.answers.Provider = "org.other" })
		b.k.Begin(b.driver("a2", model.CSIPluginController))
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("the report", b.health(), "node disk of a1 true")
		const want = `alloc a1 runs the driver "org.example" with the id "disk" on this node, and this one is the driver "org.other"; give it another id`
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.failed) != 1 || !strings.HasPrefix(b.failed[0], "a2: ") || !strings.Contains(b.failed[0], want) {
			t.Errorf("it is ended with %q", b.failed)
		}
	})
}

func TestADriverWithFilesOfItsOwnSeesItsFolders(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		d := b.driver("a1", model.CSIPluginNode)
		d.Isolated = true
		f := b.k.Folders(d)
		b.wants("the endpoint", b.k.Endpoint(d), "unix:///csi/csi.sock")
		if os.Geteuid() != 0 {
			t.Skip("sharing mounts needs root")
		}
		old := filepath.Join(f.Socket, "csi.sock")
		for range 2 {
			if err := b.k.Prepare(d); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(old); !os.IsNotExist(err) {
				t.Errorf("the socket of before: %v", err)
			}
			if err := os.WriteFile(old, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { unmount(f.Mounts) })
		end := b.k.Begin(d)
		synctest.Wait()
		if c := b.host.ran[0].Config; c["host_dir"] != f.Mounts || c["driver_dir"] != "/local/csi" || c["controller"] != false {
			t.Errorf("config %v", c)
		}
		end(true)
		if _, err := os.Stat(f.Socket); !os.IsNotExist(err) {
			t.Errorf("the folder of the socket stays: %v", err)
		}
	})
}

func TestStoragePluginsThatAreNoDriversAreReported(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		_, _, changed := b.k.Offered()
		b.host.change(func() {
			b.host.prints["pool"] = &pluginhost.VolumeFingerprint{Name: "pool", Plugin: "volume-pool", Fingerprint: volume.Fingerprint{Node: &volume.Node{ID: "n", MaxVolumes: 3}}}
		})
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("nobody was told of the change")
		}
		controllers, nodes, _ := b.k.Offered()
		r := nodes["pool"]
		if len(controllers) != 0 || r == nil || !r.Healthy || r.NodeInfo.MaxVolumes != 3 || r.RequiresControllerPlugin || r.Provider != "pool" {
			t.Fatalf("reports %v, %+v", controllers, r)
		}
		at := r.UpdateTime
		time.Sleep(time.Minute)
		if _, nodes, _ = b.k.Offered(); !nodes["pool"].UpdateTime.Equal(at) {
			t.Error("the time of a report changes, though nothing else does")
		}
	})
}
