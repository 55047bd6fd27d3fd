// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const volumeHCL = `
type         = "host"
name         = "data"
namespace    = "prod"
plugin_id    = "mkdir"
node_pool    = "gpu"
capacity_min = "10GiB"
capacity_max = 20000000000

constraint {
  attribute = "${attr.kernel.name}"
  value     = "linux"
}
constraint {
  attribute = "${attr.kernel.version}"
  version   = ">= 5"
}
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
parameters {
  mode = "0750"
  uid  = 5
}
`

const volumeJSON = `{
  "type": "host", "name": "data", "namespace": "prod", "plugin_id": "mkdir", "node_pool": "gpu",
  "capacity_min": "10GiB", "capacity_max": 20000000000,
  "constraint": [{"attribute": "${attr.kernel.name}", "value": "linux"}, {"attribute": "${attr.kernel.version}", "operator": "version", "value": ">= 5"}],
  "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}],
  "parameters": {"mode": "0750", "uid": 5}
}`

func TestAVolumeSpecificationIsTheSameInHCLAndJSON(t *testing.T) {
	want := &model.HostVolume{
		Name: "data", Namespace: "prod", PluginID: "mkdir", NodePool: "gpu", RequestedCapacityMinBytes: 10 << 30, RequestedCapacityMaxBytes: 20_000_000_000,
		Constraints:           []*model.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}, {LTarget: "${attr.kernel.version}", RTarget: ">= 5", Operand: "version"}},
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
		Parameters:            map[string]string{"mode": "0750", "uid": "5"},
	}
	for name, src := range map[string]string{"v.hcl": volumeHCL, "v.json": volumeJSON} {
		got, err := jobspec.ParseHostVolume([]byte(src), name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
	}
}

func TestWhatAVolumeSpecificationMustNotSayIsNamedWithItsPlace(t *testing.T) {
	for src, want := range map[string]string{
		"type = \"host\"\ncolour = \"red\"\n":                      "v:2",
		"type = \"host\"\nname = \"a\"\ncapacity_min = \"much\"\n": "v:3",
		"type = \"host\"\ncapability {\n  mode = \"x\"\n}\n":       "v:3",
		"name = \"a\"\n":    "\"type\"",
		"type = \"tape\"\n": "is not a type of volumes",
		"{\n\"type\": \"host\",\n\"colour\": \"red\"}":          "v:3",
		"{\n\"type\": \"host\",\n\"capability\": [{\"x\": 1}]}": "v:3",
		"{\"type\": \"host\"":                                   "v:1",
		"type = \"host\"\nname = \"a\nb\"\n":                    "v:2",
		"type = \"host\"\nsnapshot_id = \"x\"\n":                "snapshot_id",
	} {
		if _, err := jobspec.ParseHostVolume([]byte(src), "v"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", src, err, want)
		}
	}
	if _, err := jobspec.ParseHostVolume([]byte("type = \"csi\"\nid = \"x\"\n"), "v"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a volume of type csi: %v", err)
	}
}

const csiSpec = `type      = "csi"
id        = "db"
name      = "db"
plugin_id = "hostpath0"
capacity_min = "1MB"
capacity_max = "2MB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}
topology_request {
  required {
    topology {
      segments { zone = "a" }
    }
  }
}
secrets { password = "xyzzy" }
parameters { a = "b" }
`

func TestSpecificationsOfVolumesOfTypeCSI(t *testing.T) {
	want := &model.CSIVolume{
		ID: "db", Name: "db", PluginID: "hostpath0", RequestedCapacityMin: 1e6, RequestedCapacityMax: 2e6,
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
		MountOptions:          &model.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		RequestedTopologies:   &model.CSITopologyRequest{Required: []*model.CSITopology{{Segments: map[string]string{"zone": "a"}}}},
		Parameters:            map[string]string{"a": "b"},
	}
	got, secrets, err := jobspec.ParseCSIVolume([]byte(csiSpec), "v")
	if err != nil || !reflect.DeepEqual(got, want) || secrets["password"] != "xyzzy" {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if text := fmt.Sprint(secrets); strings.Contains(text, "xyzzy") {
		t.Errorf("secrets are printed: %s", text)
	}
	for src, want := range map[string]string{
		csiSpec + "colour = 1\n":                 "v:24",
		csiSpec + "host_path = \"/\"\n":          "host_path",
		"type = \"csi\"\ncapacity_min = \"x\"\n": "capacity_min",
		"type = \"host\"\n":                      "is of a volume of type \"host\"",
	} {
		if _, _, err := jobspec.ParseCSIVolume([]byte(src), "v"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", src, err, want)
		}
	}
}
