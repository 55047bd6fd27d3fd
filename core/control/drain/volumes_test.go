// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// group registers a job of one group, whose task may be a CSI driver.
func (w *world) group(id, kind string, tg *model.TaskGroup, driver *model.TaskCSIPluginConfig) {
	tg.Name, tg.Count, tg.Migrate = "g", 1, &model.MigrateStrategy{MaxParallel: 1}
	tg.Tasks = []*model.Task{{Name: "t", Driver: "raw_exec", CSIPluginConfig: driver}}
	w.apply(&fsm.UpsertJob{Job: &model.Job{
		Region: "global", Namespace: "default", ID: id, Name: id, Type: kind, Priority: 60, NodePool: "default", Datacenters: []string{"*"}, TaskGroups: []*model.TaskGroup{tg},
	}})
	w.place("a-"+id, id, 0, "n1", "")
}

// knowsVolumes raises the cluster to the level of volumes.
func (w *world) knowsVolumes() {
	w.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	w.apply(&fsm.RaiseLevel{Level: fsm.Level})
}

// driverOn makes nodes report the driver "p".
func (w *world) driverOn(nodes ...string) {
	for _, id := range nodes {
		plugins := map[string]*model.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &model.CSINodeInfo{ID: id}}}
		w.apply(&fsm.RegisterNode{Node: &model.Node{ID: id, Name: id, Status: model.NodeStatusReady, StatusUpdatedAt: w.now.Unix(), CSINodePlugins: plugins}})
	}
}

func TestADriverLeavesADrainedNodeWhenNobodyUsesItsVolumesAnyMore(t *testing.T) {
	w := newWorld(t)
	volume := func() *model.TaskGroup {
		return &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	}
	vol := &model.CSIVolume{Namespace: "default", PluginID: "p", ExternalID: "x", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	w.knowsVolumes()
	w.driverOn("n1", "n2")
	for _, id := range []string{"db", "archive"} {
		one := *vol
		one.ID = id
		w.apply(&fsm.PutCSIVolume{Volume: &one, New: true})
	}
	w.group("driver", model.JobTypeService, &model.TaskGroup{}, &model.TaskCSIPluginConfig{ID: "p", Type: model.CSIPluginMonolith})
	w.group("web", model.JobTypeService, &model.TaskGroup{}, nil)
	w.group("db", model.JobTypeService, volume(), nil)
	archive := volume()
	archive.Volumes["v"].Source = "archive"
	w.group("archive", model.JobTypeBatch, archive, nil)

	w.drain("n1", model.DrainStrategy{Deadline: time.Hour, IgnoreSystemJobs: true})
	w.decide()
	w.want("a-db a-web")
	for _, id := range []string{"a-db", "a-web"} {
		w.report(id, model.AllocClientStatusComplete)
		w.decide()
	}
	w.want("a-db a-web") // the batch job still has a volume
	w.report("a-archive", model.AllocClientStatusComplete)
	w.decide()
	w.want("a-db a-driver a-web")
	w.report("a-driver", model.AllocClientStatusComplete)
	w.decide()
	if w.draining("n1") {
		t.Error("the drain is not complete")
	}
}

func TestADriverIsNotAwaitedForTheVolumesOfNobodyNorAfterTheDeadline(t *testing.T) {
	w := newWorld(t)
	driver := &model.TaskCSIPluginConfig{ID: "p", Type: model.CSIPluginMonolith}
	own := &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	w.knowsVolumes()
	w.driverOn("n1", "n2")
	w.group("driver", model.JobTypeService, &model.TaskGroup{}, driver)
	w.group("long", model.JobTypeBatch, &model.TaskGroup{}, nil)
	w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
	w.decide()
	w.want("a-driver")

	w = newWorld(t)
	w.knowsVolumes()
	w.driverOn("n1", "n2")
	w.apply(&fsm.PutCSIVolume{Volume: &model.CSIVolume{ID: "db", Namespace: "default", PluginID: "p", ExternalID: "x", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}, New: true})
	w.group("driver", model.JobTypeService, &model.TaskGroup{}, driver)
	w.group("db", model.JobTypeBatch, own, nil)
	w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
	w.decide()
	w.want("")
	w.now = w.now.Add(time.Hour)
	w.decide()
	w.want("a-db a-driver")
}

func TestADriverThatNoOtherNodeOffersLeavesAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		on   []string
		kind string
		then func(*world)
	}{
		"no other node has it": {on: []string{"n1"}, kind: model.CSIPluginMonolith},
		"it is unhealthy there": {on: []string{"n1", "n2"}, kind: model.CSIPluginNode, then: func(w *world) {
			plugins := map[string]*model.CSIInfo{"p": {PluginID: "p", NodeInfo: &model.CSINodeInfo{ID: "n2"}}}
			w.apply(&fsm.RegisterNode{Node: &model.Node{ID: "n2", Name: "n2", Status: model.NodeStatusReady, StatusUpdatedAt: w.now.Unix(), CSINodePlugins: plugins}})
		}},
		"the other node drains, too": {on: []string{"n1", "n2"}, kind: model.CSIPluginMonolith, then: func(w *world) {
			w.drain("n2", model.DrainStrategy{})
		}},
		"it mounts nothing": {on: []string{"n1", "n2"}, kind: model.CSIPluginController},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.knowsVolumes()
			w.driverOn(c.on...)
			w.apply(&fsm.PutCSIVolume{Volume: &model.CSIVolume{ID: "db", Namespace: "default", PluginID: "p", ExternalID: "x", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}, New: true})
			w.group("driver", model.JobTypeService, &model.TaskGroup{}, &model.TaskCSIPluginConfig{ID: "p", Type: c.kind})
			w.group("db", model.JobTypeService, &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}, nil)
			w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
			if c.then != nil {
				c.then(w)
			}
			w.decide()
			w.want("a-db a-driver")
		})
	}
}
