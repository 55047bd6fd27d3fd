// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func goodCSIVolume() *model.CSIVolume {
	return &model.CSIVolume{
		ID: "db", Name: "db", PluginID: "org.example.disk", RequestedCapacityMin: 10, RequestedCapacityMax: 20,
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}},
		Parameters:            map[string]string{"kind": "loop"},
	}
}

func TestWhatIsWrongWithACSIVolumeIsSaid(t *testing.T) {
	if err := goodCSIVolume().Validate(false); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		registered bool
		edit       func(*model.CSIVolume)
		want       string
	}{
		"no id":                                {false, func(v *model.CSIVolume) { v.ID = "" }, "missing id"},
		"an id with slashes":                   {false, func(v *model.CSIVolume) { v.ID = "../../etc" }, `id "../../etc" must be letters`},
		"an id with an index that is none":     {false, func(v *model.CSIVolume) { v.ID = "db[x]" }, `id "db[x]" must be`},
		"a driver's id with slashes":           {false, func(v *model.CSIVolume) { v.PluginID = "a/b" }, `plugin id "a/b" must be`},
		"no driver":                            {false, func(v *model.CSIVolume) { v.PluginID = "" }, "name the CSI driver, as drover plugin status -type csi lists it"},
		"sizes that contradict":                {false, func(v *model.CSIVolume) { v.RequestedCapacityMax = 5 }, "capacity_max (5) must not be smaller than capacity_min (10)"},
		"a size below zero":                    {false, func(v *model.CSIVolume) { v.RequestedCapacityMin = -1 }, "must not be negative"},
		"an access mode that nobody has":       {false, func(v *model.CSIVolume) { v.RequestedCapabilities[0].AccessMode = "some" }, `unknown volume access mode: "some"; use one of multi-node-reader-only`},
		"an attachment mode that nobody has":   {false, func(v *model.CSIVolume) { v.RequestedCapabilities[0].AttachmentMode = "tape" }, `unknown volume attachment mode: "tape"; use "file-system" or "block-device"`},
		"no capability":                        {false, func(v *model.CSIVolume) { v.RequestedCapabilities = nil }, "at least one capability"},
		"a null capability":                    {false, func(v *model.CSIVolume) { v.RequestedCapabilities[0] = nil }, "a capability is null"},
		"an id of the storage system":          {false, func(v *model.CSIVolume) { v.ExternalID = "x" }, "can only be set when a volume is registered"},
		"no id of the storage system":          {true, func(*model.CSIVolume) {}, "missing external id"},
		"an id of two lines":                   {true, func(v *model.CSIVolume) { v.ExternalID = "a\nb" }, "without control characters"},
		"a snapshot of a volume that is there": {true, func(v *model.CSIVolume) { v.ExternalID, v.SnapshotID = "x", "s" }, "are for volumes that are created"},
		"two beginnings":                       {false, func(v *model.CSIVolume) { v.SnapshotID, v.CloneID = "s", "c" }, "leave snapshot_id or clone_id out"},
		"large parameters":                     {false, func(v *model.CSIVolume) { v.Parameters["kind"] = strings.Repeat("x", 20000) }, "parameters: they have 20004 bytes"},
		"too many topologies": {false, func(v *model.CSIVolume) {
			v.RequestedTopologies = &model.CSITopologyRequest{Required: make([]*model.CSITopology, 65)}
		}, "65 topologies are more than the 64"},
		"mount options of a block device": {false, func(v *model.CSIVolume) {
			v.MountOptions, v.RequestedCapabilities[0].AttachmentMode = &model.CSIMountOptions{FSType: "ext4"}, "block-device"
		}, `or add a capability with attachment mode "file-system"`},
		"too many flags of mount": {false, func(v *model.CSIVolume) { v.MountOptions = &model.CSIMountOptions{MountFlags: make([]string, 65)} }, "the mount options are too long"},
	} {
		t.Run(what, func(t *testing.T) {
			v := goodCSIVolume()
			c.edit(v)
			if err := v.Validate(c.registered); err == nil || !strings.Contains(err.Error(), c.want) || !errdefs.IsInvalidArgument(err) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestSecretsOfAVolumeAreNotInWhatIsWrongWithThem(t *testing.T) {
	s := model.VolumeSecrets{"": "never-shown", "key": strings.Repeat("never-shown", 2000)}
	err := s.Validate()
	if err == nil || strings.Contains(err.Error(), "never-shown") || strings.Contains(fmt.Sprintf("%v %+v %#v", s, s, s), "never-shown") {
		t.Errorf("got %v", err)
	}
}

func TestModesThatDoNotExistAreNamedWithThoseThatDo(t *testing.T) {
	v := &model.CSIVolume{ID: "db", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	if err := v.CheckForm(); err != nil || v.UnknownAccessMode() != "" {
		t.Errorf("%v, %q", err, v.UnknownAccessMode())
	}
	v.RequestedCapabilities[0].AccessMode = "zz"
	if err := v.CheckForm(); err == nil || !strings.Contains(err.Error(), `"zz"; use one of multi-node-reader-only`) || v.UnknownAccessMode() != "zz" {
		t.Errorf("%v, %q", err, v.UnknownAccessMode())
	}
	v.ID = ".."
	if err := v.CheckForm(); err == nil || !strings.Contains(err.Error(), `id ".."`) {
		t.Errorf("an id that is a way: %v", err)
	}
}
