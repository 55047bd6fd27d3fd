// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// olderVolume is a specification as those written for the reference are: keys of segments and
// parameters are quoted, since they have dots and slashes, and blocks are on one line.
const olderVolume = `id = "db" # the name
"name" = "db"
type = "csi"
plugin_id = "disk"
capability { access_mode = "single-node-writer", attachment_mode = "file-system" }
capability {
  access_mode = "single-node-reader-only", attachment_mode = "file-system" }
mount_options = { fs_type = "ext4", mount_flags = ["noatime", "nodev"] }
topology_request {
  required {
    topology { segments { "topology.example.org/zone" = "a", rack = "R1" } }
    topology {
      segments {
        "topology.example.org/zone" = "b" // the other
        "rack"                      = "R2"
      }
    }
  }
  preferred { topology { segments { rack = "R1" } } }
}
parameters = { "csi.example.org/fstype" : "xfs", kind : "a, b" }
secrets { password = "{x}" }
`

func TestVolumeSpecificationsMayBeWrittenAsForTheReference(t *testing.T) {
	v, secrets, err := jobspec.ParseCSIVolume([]byte(olderVolume), "v.hcl")
	if err != nil {
		t.Fatal(err)
	}
	want := &model.CSIVolume{
		ID: "db", Name: "db", PluginID: "disk",
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}, {AccessMode: "single-node-reader-only", AttachmentMode: "file-system"}},
		MountOptions:          &model.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime", "nodev"}},
		RequestedTopologies: &model.CSITopologyRequest{
			Required:  []*model.CSITopology{{Segments: map[string]string{"topology.example.org/zone": "a", "rack": "R1"}}, {Segments: map[string]string{"topology.example.org/zone": "b", "rack": "R2"}}},
			Preferred: []*model.CSITopology{{Segments: map[string]string{"rack": "R1"}}},
		},
		Parameters: map[string]string{"csi.example.org/fstype": "xfs", "kind": "a, b"},
	}
	if !reflect.DeepEqual(v, want) || secrets["password"] != "{x}" {
		t.Errorf("read %+v, secrets %v", v, secrets)
	}
}

func TestMistakesInOlderSpecificationsAreWhereTheAuthorSeesThem(t *testing.T) {
	for src, want := range map[string]string{
		"type = \"host\"\ncapability { access_mode = \"x\", mode = \"y\" }\n":                      "v:2,33-37",
		"type = \"host\"\nparameters { \"a/b\" = \"c\", \"d e\" = [] }\n":                          "v:2,27-",
		"type = \"host\"\nparameters { \"a/b\" = [1] }\nname = \"x\"\n":                            `value of "a/b"`,
		"type = \"host\"\n\"a/b\" = \"c\"\n":                                                       `argument named "a/b"`,
		"type = \"host\"\ncapability { access_mode = \"x\"\n attachment_mode = \"y\"\n":            "v:2",
		"type = \"host\"\nparameters { a = \"b\" }\ncapacity_min = \"much\"\n":                     "v:3,16-22",
		"type = \"host\"\nparameters { a = \"b\", \"c.d\" = \"e\" }\ncapability {\n colour = 1\n}": "v:4,2-8",
	} {
		if _, err := jobspec.ParseHostVolume([]byte(src), "v"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", src, err, want)
		}
	}
}

func TestOtherSpecificationsMayBeWrittenAsForTheReferenceToo(t *testing.T) {
	v, err := jobspec.ParseVariable([]byte("path = \"nomad/jobs/a\"\nitems {\n  key1 = \"value 1\"\n  \"key.2\" = \"value 2\"\n}\n"), "v")
	if err != nil || v.Items["key1"] != "value 1" || v.Items["key.2"] != "value 2" {
		t.Errorf("variable: %+v, %v", v, err)
	}
	n, err := jobspec.ParseNamespace([]byte("name = \"a\"\nmeta { \"team.name\" = \"x\", b = \"c\" }\ncapabilities { enabled_task_drivers = [\"docker\", \"exec\"] }\n"), "n")
	if err != nil || n.Meta["team.name"] != "x" || n.Meta["b"] != "c" || len(n.Capabilities.EnabledTaskDrivers) != 2 {
		t.Errorf("namespace: %+v, %v", n, err)
	}
	p, err := jobspec.ParseNodePools([]byte("node_pool \"gpu\" { description = \"x\", meta { \"a/b\" = \"c\" } }\n"), "p")
	if err != nil || len(p) != 1 || p[0].Meta["a/b"] != "c" || p[0].Description != "x" {
		t.Errorf("pools: %+v, %v", p, err)
	}
}

func FuzzVolumeSpecifications(f *testing.F) {
	f.Add(olderVolume)
	f.Add("type = \"host\"\nparameters { \"a\" = 1 }")
	f.Add("{{}},\"\":")
	f.Fuzz(func(_ *testing.T, src string) {
		_, _, _ = jobspec.ParseCSIVolume([]byte(src), "v") // must not panic
		_, _ = jobspec.ParseHostVolume([]byte(src), "v")
	})
}
