// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// mounting is an alloc with two volumes: one of its own, and one that it only reads.
func mounting(b *bed, host map[string]*model.HostVolumeConfig) *model.Allocation {
	b.driver.mounts = true
	b.cfg.Node = func() *model.Node { return &model.Node{ID: "n1", Name: "node", HostVolumes: host} }
	t := newTask("web")
	t.VolumeMounts = []*model.VolumeMount{
		{Volume: "own", Destination: "/own", PropagationMode: "host-to-task", SELinuxLabel: "Z"},
		{Volume: "books", Destination: "/books"},
	}
	a := newAlloc(t)
	a.Name = "j.g[2]"
	a.Job.TaskGroups[0].RestartPolicy = &model.RestartPolicy{Attempts: 5, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}
	a.Job.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{
		"own":   {Name: "own", Type: "host", Source: "data", PerAlloc: true},
		"books": {Name: "books", Type: "host", Source: "books", AccessMode: model.AccessSingleNodeReader, ReadOnly: true},
	}
	return a
}

func TestTasksStartWithTheirVolumesWhenTheyAreThere(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		dir := t.TempDir()
		a := mounting(b, nil)
		var node atomic.Pointer[model.Node]
		b.cfg.Node = node.Load
		has := func(more ...*model.HostVolumeConfig) { // besides the books
			n := &model.Node{ID: "n1", Name: "node", HostVolumes: map[string]*model.HostVolumeConfig{"books": {Name: "books", Path: dir}}}
			for _, v := range more {
				n.HostVolumes[v.Name] = v
			}
			node.Store(n)
		}
		has()
		b.run(a)
		synctest.Wait()
		b.wants("", "pending")
		b.hasEvent("web", `step "host volumes" of the group failed and is tried again: host volume "data[2]" is not on this node at the moment`)
		has(&model.HostVolumeConfig{Name: "data[2]", ID: "v", Path: filepath.Join(dir, "missing")})
		time.Sleep(time.Minute)
		synctest.Wait()
		b.hasEvent("web", `host volume "data[2]" cannot be used`)
		has(&model.HostVolumeConfig{Name: "data[2]", ID: "v", Path: dir})
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("web", "running")
		want := []driver.Mount{
			{HostPath: dir, TaskPath: "/own", PropagationMode: "host-to-task", SELinuxLabel: "Z"}, {HostPath: dir, TaskPath: "/books", ReadOnly: true},
		}
		if got := b.driver.configs[0].Mounts; !reflect.DeepEqual(got, want) {
			t.Errorf("mounts %+v, want %+v", got, want)
		}
		// An agent whose plugin has not restored the volume yet leaves the task alone.
		has()
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
		b.r.Stop()
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestADriverThatCannotMountFailsTheTaskByItsName(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		dir := t.TempDir()
		a := mounting(b, map[string]*model.HostVolumeConfig{"books": {Name: "books", Path: dir}, "data[2]": {Name: "data[2]", Path: dir}})
		b.driver.mounts = false
		b.run(a)
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", `driver "fake" cannot mount volumes`)
	})
}

func TestADestinationIsOneAfterItsVariablesAreReplaced(t *testing.T) {
	const refused = "which is not a folder within the task"
	for what, c := range map[string]struct{ destination, want string }{
		"in the task's directory": {"${NOMAD_TASK_DIR}/data", ""}, "a name": {"/srv/${NOMAD_TASK_NAME}", ""}, "leaves the task": {"${NOMAD_META_up}/etc", refused}, "is everything": {"${NOMAD_META_root}", refused},
	} {
		t.Run(what, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				dir := t.TempDir()
				a := mounting(b, map[string]*model.HostVolumeConfig{"books": {Name: "books", Path: dir}, "data[2]": {Name: "data[2]", Path: dir}})
				a.Job.Meta = map[string]string{"up": "/srv/../..", "root": "/"}
				a.Job.TaskGroups[0].RestartPolicy.Attempts = 0
				a.Job.TaskGroups[0].Tasks[0].VolumeMounts[1].Destination = c.destination
				b.run(a)
				synctest.Wait()
				if c.want != "" {
					b.wants("", "failed")
					b.hasEvent("web", c.want)
					return
				}
				b.wants("web", "running")
				if got := b.driver.configs[0].Mounts[1].TaskPath; strings.Contains(got, "$") || !strings.HasSuffix(got, "data") && got != "/srv/web" {
					t.Errorf("it is mounted at %q", got)
				}
				b.r.Stop()
				synctest.Wait()
			})
		})
	}
}
