// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func goodVolume() *model.HostVolume {
	return &model.HostVolume{
		Name: "data", PluginID: "mkdir", NodePool: "default", RequestedCapacityMinBytes: 10, RequestedCapacityMaxBytes: 20,
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}},
		Parameters:            map[string]string{"mode": "0750"}, Constraints: []*model.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}},
	}
}

func TestWhatIsWrongWithAHostVolumeIsSaid(t *testing.T) {
	if err := goodVolume().Validate(); err != nil {
		t.Fatal(err)
	}
	registered := func(v *model.HostVolume) {
		v.Registered, v.NodeID, v.HostPath = true, "00000000-0000-4000-8000-000000000001", "/srv/data"
	}
	mine := goodVolume()
	registered(mine)
	if mine.PluginID = ""; mine.Validate() != nil {
		t.Errorf("a registered volume without a plugin: %v", mine.Validate())
	}
	for want, edit := range map[string]func(*model.HostVolume){
		"missing name":                          func(v *model.HostVolume) { v.Name = "" },
		`name "a/b" must be`:                    func(v *model.HostVolume) { v.Name = "a/b" },
		`name "data[01]" must be`:               func(v *model.HostVolume) { v.Name = "data[01]" },
		"is not a UUID; leave it out":           func(v *model.HostVolume) { v.ID = "../x" },
		"missing plugin id":                     func(v *model.HostVolume) { v.PluginID = "" },
		"is not a file name":                    func(v *model.HostVolume) { v.PluginID = "../sh" },
		"is not a name of a pool":               func(v *model.HostVolume) { v.NodePool = "a b" },
		"can only be set when":                  func(v *model.HostVolume) { v.HostPath = "/x" },
		"must not be smaller than capacity_min": func(v *model.HostVolume) { v.RequestedCapacityMaxBytes = 5 },
		"must not be negative":                  func(v *model.HostVolume) { v.RequestedCapacityMinBytes = -1 },
		"at least one capability":               func(v *model.HostVolume) { v.RequestedCapabilities = nil },
		`invalid access mode: "multi-node"`:     func(v *model.HostVolume) { v.RequestedCapabilities[0].AccessMode = "multi-node" },
		`invalid attachment mode: "block-devi`:  func(v *model.HostVolume) { v.RequestedCapabilities[0].AttachmentMode = "block-device" },
		"is about several allocs":               func(v *model.HostVolume) { v.Constraints[0].Operand = "distinct_hosts" },
		"Unknown constraint type":               func(v *model.HostVolume) { v.Constraints[0].Operand = "like" },
		"the parameters have 20004 bytes":       func(v *model.HostVolume) { v.Parameters["mode"] = strings.Repeat("x", 20000) },
		"missing node id":                       func(v *model.HostVolume) { registered(v); v.NodeID = "" },
		"missing host path":                     func(v *model.HostVolume) { registered(v); v.HostPath = "" },
		`host path "srv" must be absolute`:      func(v *model.HostVolume) { registered(v); v.HostPath = "srv" },
		`host path "/srv/../etc" must be absol`: func(v *model.HostVolume) { registered(v); v.HostPath = "/srv/../etc" },
		`host path "/" is the whole machine`:    func(v *model.HostVolume) { registered(v); v.HostPath = "/" },
	} {
		v := goodVolume()
		edit(v)
		if err := v.Validate(); err == nil || !strings.Contains(err.Error(), want) || !errdefs.IsInvalidArgument(err) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestACopyOfAHostVolumeSharesNothing(t *testing.T) {
	v := goodVolume()
	c := v.Copy()
	c.Parameters["mode"], c.RequestedCapabilities[0].AccessMode, c.Constraints[0].RTarget = "x", "x", "x"
	if !reflect.DeepEqual(v, goodVolume()) {
		t.Errorf("the original is %+v", v)
	}
}

func TestTheStateOfAHostVolumeFollowsFromItsNode(t *testing.T) {
	v := &model.HostVolume{ID: "v", Name: "data"}
	ready := &model.Node{Status: model.NodeStatusReady, HostVolumes: map[string]*model.HostVolumeConfig{"data": {ID: "v"}}}
	down, without, other := *ready, *ready, *ready
	down.Status, without.HostVolumes = model.NodeStatusDown, nil
	other.HostVolumes = map[string]*model.HostVolumeConfig{"data": {ID: "another"}}
	for _, step := range []struct {
		node *model.Node
		want string
	}{
		{&without, model.HostVolumePending}, {&other, model.HostVolumePending}, {nil, model.HostVolumePending}, {ready, model.HostVolumeReady},
		{&without, model.HostVolumeUnavailable}, {ready, model.HostVolumeReady}, {&down, model.HostVolumeUnavailable}, {nil, model.HostVolumeUnavailable},
	} {
		if v.State = v.StateOn(step.node); v.State != step.want {
			t.Errorf("on %+v: %s, want %s", step.node, v.State, step.want)
		}
	}
	if v.Deleting = true; v.StateOn(ready) != model.HostVolumeDeleting {
		t.Errorf("while it is deleted: %s", v.StateOn(ready))
	}
}

func TestWhatIsWrongWithARequestForAVolumeIsSaid(t *testing.T) {
	host := func() *model.VolumeRequest { return &model.VolumeRequest{Name: "v", Type: "host", Source: "data"} }
	csi := func() *model.VolumeRequest {
		return &model.VolumeRequest{Name: "v", Type: "csi", Source: "db", AccessMode: "multi-node-multi-writer", AttachmentMode: "block-device"}
	}
	for _, c := range []struct {
		want string
		of   func() *model.VolumeRequest
		edit func(*model.Job, *model.VolumeRequest)
	}{
		{"", host, func(_ *model.Job, v *model.VolumeRequest) { v.PerAlloc, v.Sticky = true, true }},
		{"an empty source", host, func(_ *model.Job, v *model.VolumeRequest) { v.Source = "" }},
		{`unrecognized type "tape"`, host, func(_ *model.Job, v *model.VolumeRequest) { v.Type = "tape" }},
		{`no access mode "zz"`, host, func(_ *model.Job, v *model.VolumeRequest) { v.AccessMode = "zz" }},
		{"needs read_only = true", host, func(_ *model.Job, v *model.VolumeRequest) { v.AccessMode = model.AccessSingleNodeReader }},
		{"no attachment mode", host, func(_ *model.Job, v *model.VolumeRequest) { v.AttachmentMode = "block-device" }},
		{"have no mount_options", host, func(_ *model.Job, v *model.VolumeRequest) { v.MountOptions = &model.CSIMountOptions{} }},
		{"for system or sysbatch", host, func(j *model.Job, v *model.VolumeRequest) { j.Type, v.PerAlloc = model.JobTypeSystem, true }},
		{"when canaries are in use", csi, func(j *model.Job, v *model.VolumeRequest) {
			v.PerAlloc, j.TaskGroups[0].Update = true, &model.UpdateStrategy{Canary: 1}
		}},
		{"gets the index of the al", csi, func(_ *model.Job, v *model.VolumeRequest) { v.PerAlloc, v.Source = true, "data[0]" }},
		{"", csi, func(*model.Job, *model.VolumeRequest) {}},
		{"failed: 1 error occurred:\n\t* CSI volumes must have an attachment mode\n", csi, func(_ *model.Job, v *model.VolumeRequest) { v.AttachmentMode, v.AccessMode = "", "zz" }},
		{"CSI volumes must have an access mode", csi, func(_ *model.Job, v *model.VolumeRequest) { v.AccessMode = "" }},
		{`CSI volumes have no access mode "zz"`, csi, func(_ *model.Job, v *model.VolumeRequest) { v.AccessMode = "zz" }},
		{`CSI volumes have no attachment mode "zz"`, csi, func(_ *model.Job, v *model.VolumeRequest) { v.AttachmentMode = "zz" }},
		{"is not mounted: remove mount_options", csi, func(_ *model.Job, v *model.VolumeRequest) { v.MountOptions = &model.CSIMountOptions{FSType: "ext4"} }},
		{"only host volumes can be sticky", csi, func(_ *model.Job, v *model.VolumeRequest) { v.Sticky = true }},
	} {
		v := c.of()
		job := &model.Job{Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{Name: "g", Volumes: map[string]*model.VolumeRequest{"v": v}}}}
		c.edit(job, v)
		got := job.Validate().Error()
		if bad := strings.Contains(got, "volume validation for v failed"); bad != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", v.Type, c.want, got)
		}
	}
}

func TestAVolumeIsMountedWithinTheTask(t *testing.T) {
	for destination, ok := range map[string]bool{
		"/data": true, "data": true, "/a/../data": true, "local/x": true, "../x": false, "/data/../../etc": false, "/": false, ".": false, "/..": false, "a/..": false,
	} {
		job := &model.Job{Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{
			Name: "g", Volumes: map[string]*model.VolumeRequest{"v": {Type: "host", Source: "data"}},
			Tasks: []*model.Task{{Name: "t", VolumeMounts: []*model.VolumeMount{{Volume: "v", Destination: destination}}}},
		}}}
		if refused := strings.Contains(job.Validate().Error(), "is not a folder within the task"); refused == ok {
			t.Errorf("%q: refused is %v", destination, refused)
		}
	}
}
