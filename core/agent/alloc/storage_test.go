// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeStorage notes what it is asked for.
type fakeStorage struct {
	mu   sync.Mutex
	did  []string
	fail func(call string) error
	// waits ends a claim that servers do not grant; nil grants at once.
	waits chan struct{}
	begun []storage.Driver
}

func (s *fakeStorage) call(what, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what+" "+name)
	if s.fail != nil {
		return s.fail(what)
	}
	return nil
}

func (s *fakeStorage) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.did, ", ")
	s.did = nil
	return out
}

func (s *fakeStorage) Claim(ctx context.Context, allocID, request string, waits func(string)) (*storage.Mount, error) {
	if err := s.call("claim", request); err != nil {
		return nil, err
	}
	if s.waits != nil {
		waits("node n2 has it")
		select {
		case <-s.waits:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &storage.Mount{AllocID: allocID, Request: request, Target: "/volumes/" + allocID + "/" + request, Block: request == "raw"}, nil
}

func (s *fakeStorage) Keep(m *storage.Mount) { _ = s.call("keep", m.Request) }

func (s *fakeStorage) Stage(_ context.Context, m *storage.Mount) error {
	return s.call("stage", m.Request)
}

func (s *fakeStorage) Publish(_ context.Context, m *storage.Mount) error {
	return s.call("publish", m.Request)
}

func (s *fakeStorage) Unpublish(_ context.Context, m *storage.Mount) error {
	return s.call("unpublish", m.Request)
}

func (s *fakeStorage) Unstage(_ context.Context, m *storage.Mount) error {
	return s.call("unstage", m.Request)
}

func (s *fakeStorage) Endpoint(d storage.Driver) string {
	if d.Isolated {
		return "unix://" + d.Plugin.MountDir + "/csi.sock"
	}
	return "unix:///node/csi.sock"
}

func (s *fakeStorage) Folders(storage.Driver) storage.Folders {
	return storage.Folders{Socket: "/node/socket", Mounts: "/node/mounts"}
}

func (s *fakeStorage) Prepare(d storage.Driver) error { return s.call("prepare", d.Plugin.ID) }

func (s *fakeStorage) Begin(d storage.Driver) func(bool) {
	_ = s.call("begin", d.Plugin.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, d)
	return func(gone bool) {
		if gone {
			_ = s.call("end", d.Plugin.ID)
		}
	}
}

// storing is an alloc with two volumes of storage plugins.
func storing(b *bed) (*fakeStorage, *model.Allocation) {
	s := &fakeStorage{}
	b.cfg.Storage = s
	b.driver.mounts = true
	t := newTask("web")
	t.VolumeMounts = []*model.VolumeMount{{Volume: "data", Destination: "/data", PropagationMode: "private"}, {Volume: "raw", Destination: "/dev/xvda", ReadOnly: true}}
	a := newAlloc(t)
	a.Job.TaskGroups[0].RestartPolicy = &model.RestartPolicy{Attempts: 5, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}
	a.Job.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{
		"raw":  {Name: "raw", Type: "csi", Source: "raw", AccessMode: "single-node-writer", AttachmentMode: "block-device"},
		"data": {Name: "data", Type: "csi", Source: "data", AccessMode: "single-node-writer", AttachmentMode: "file-system"},
	}
	return s, a
}

func TestVolumesAreBroughtBeforeTasksAndTakenBackAfterThem(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		s, a := storing(b)
		s.waits = make(chan struct{})
		b.run(a)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		b.wants("", model.AllocClientStatusPending)
		b.hasEvent("web", `step "volume claims" of the group has taken 30s; it waits for the servers: node n2 has it`)
		if at := b.r.Steps()[0]; at.Step != alloc.GroupClaims || at.Detail != "node n2 has it" {
			t.Errorf("the step is shown as %+v", at)
		}
		close(s.waits)
		synctest.Wait()
		b.wants("web", model.AllocClientStatusRunning)
		const brought = "claim data, claim raw, stage data, stage raw, publish data, publish raw"
		if got := s.log(); got != brought+", publish data, publish raw" {
			t.Errorf("before the task: %s", got)
		}
		c := b.driver.configs[0]
		if want := []driver.Mount{{HostPath: "/volumes/a1/data", TaskPath: "/data", PropagationMode: "private"}}; !slices.Equal(c.Mounts, want) {
			t.Errorf("mounts %+v", c.Mounts)
		}
		if want := []driver.Device{{HostPath: "/volumes/a1/raw", TaskPath: "/dev/xvda", Permissions: "r"}}; !slices.Equal(c.Devices, want) {
			t.Errorf("devices %+v", c.Devices)
		}
		b.restart(nil)
		synctest.Wait()
		if got := s.log(); got != "keep data, keep raw" && got != "keep raw, keep data" {
			t.Errorf("after a restart of the agent: %s", got)
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", model.AllocClientStatusComplete)
		if got := s.log(); got != "unpublish raw, unpublish data, unstage raw, unstage data" {
			t.Errorf("after the task: %s", got)
		}
	})
}

func TestAnAllocEndsWhenItsVolumesAreTakenBack(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		s, a := storing(b)
		b.run(a)
		synctest.Wait()
		s.mu.Lock()
		s.fail = func(call string) error {
			if call == "unpublish" {
				return errdefs.Unavailablef("the driver is away")
			}
			return nil
		}
		s.mu.Unlock()
		b.r.Update(stopped(a))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.wants("", model.AllocClientStatusRunning)
		if !b.r.UsesVolumes() {
			t.Error("the alloc uses no volumes, though they could not be taken back")
		}
		b.hasEvent("web", `step "published volumes" of the group cannot be torn down and is tried again: the driver is away`)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("", model.AllocClientStatusRunning)
		b.hasEvent("web", `step "published volumes" of the group cannot be torn down and is tried again until it succeeds`)
		const words = `All tasks have ended; step "published volumes" of the group cannot be torn down: the driver is away; the driver is away; next try at `
		if got := b.r.View().ClientDescription; !strings.HasPrefix(got, words) {
			t.Errorf("after an hour it is described as %q", got)
		}
		if at := b.r.Steps()[0]; at.Step != alloc.GroupPublished || !strings.Contains(at.LastError, "the driver is away") || !strings.Contains(at.Detail, "next try at ") {
			t.Errorf("after an hour the step is shown as %+v", at)
		}
		b.restart(nil)
		synctest.Wait()
		b.wants("", model.AllocClientStatusRunning)
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.wants("", model.AllocClientStatusComplete)
		if b.r.UsesVolumes() {
			t.Error("the alloc uses volumes after its end")
		}
	})
}

func TestAStepOfVolumesThatFailsIsTriedAgainOrFailsTheAlloc(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status string
	}{
		"what may pass": {errors.New("the disk is slow"), model.AllocClientStatusRunning},
		"for good":      {errdefs.InvalidArgumentf("there is no such volume"), model.AllocClientStatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				s, a := storing(b)
				failed := false
				s.fail = func(call string) error {
					if call == "publish" && !failed {
						failed = true
						return c.err
					}
					return nil
				}
				b.run(a)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				b.hasEvent("web", c.err.Error())
				if got := b.r.View().ClientStatus; got != c.status {
					t.Errorf("the alloc is %s, want %s", got, c.status)
				}
				if got := s.log(); c.status == model.AllocClientStatusFailed && !strings.HasSuffix(got, "unpublish raw, unpublish data, unstage raw, unstage data") {
					t.Errorf("the node did: %s", got)
				}
			})
		})
	}
}

// driving is an alloc whose task is a CSI driver.
func driving(b *bed) (*fakeStorage, *model.Allocation) {
	s, t := &fakeStorage{}, newTask("plugin")
	b.cfg.Storage = s
	t.CSIPluginConfig = &model.TaskCSIPluginConfig{ID: "disk", Type: "node", MountDir: "/csi", StagePublishBaseDir: "/local/csi", HealthTimeout: time.Minute}
	t.Config = map[string]any{"say": "${CSI_ENDPOINT}"}
	return s, newAlloc(t)
}

func TestATaskThatIsACSIDriver(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		s, a := driving(b)
		b.run(a)
		synctest.Wait()
		c := b.driver.configs[0]
		if c.Env["CSI_ENDPOINT"] != "unix:///node/csi.sock" || len(c.Mounts) > 0 || !strings.Contains(string(c.DriverConfig), "unix:///node/csi.sock") {
			t.Errorf("it got %q, %+v, %s", c.Env["CSI_ENDPOINT"], c.Mounts, c.DriverConfig)
		}
		if s.begun[0].Healthy {
			t.Error("it is said to be healthy")
		}
		s.begun[0].Note(model.TaskEvent{Type: model.TaskPluginHealthy, DisplayMessage: "plugin: disk"})
		synctest.Wait()
		b.restart(nil)
		synctest.Wait()
		if got := s.log(); got != "prepare disk, begin disk, begin disk" || !s.begun[1].Healthy {
			t.Errorf("after a restart of the agent: %s, %+v", got, s.begun)
		}
		s.begun[1].Fail(model.TaskEvent{Type: model.TaskPluginUnhealthy, DisplayMessage: "it does not answer", FailsTask: true})
		synctest.Wait()
		b.wants("", model.AllocClientStatusFailed)
		b.hasEvent("plugin", "it does not answer")
		if got := s.log(); got != "end disk" {
			t.Errorf("at its end: %s", got)
		}
	})
}

func TestADriverWithAnImageSeesTheFoldersOfTheNode(t *testing.T) {
	for _, isolation := range []driver.FSIsolation{"image", "chroot"} {
		t.Run(string(isolation), func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				_, a := driving(b)
				b.driver.isolation, b.driver.mounts = isolation, true
				b.run(a)
				synctest.Wait()
				c := b.driver.configs[0]
				want := []driver.Mount{{HostPath: "/node/socket", TaskPath: "/csi", PropagationMode: "private"}, {HostPath: "/node/mounts", TaskPath: "/local/csi", PropagationMode: "bidirectional"}}
				var devices []driver.Device
				if isolation == "image" {
					want = append(want, driver.Mount{HostPath: "/dev", TaskPath: "/dev", PropagationMode: "private"})
				} else {
					devices = []driver.Device{{HostPath: "/dev", TaskPath: "/dev", Permissions: "rwm"}}
				}
				if !slices.Equal(c.Devices, devices) {
					t.Errorf("it got the devices %+v", c.Devices)
				}
				if c.Env["CSI_ENDPOINT"] != "unix:///csi/csi.sock" || !slices.Equal(c.Mounts, want) {
					t.Errorf("it got %q, %+v", c.Env["CSI_ENDPOINT"], c.Mounts)
				}
			})
		})
	}
}
