// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

const pluginFile = `
plugin "driver-x" {
  version     = "1.2.0"
  digest      = "sha256:00"
  source      = "https://example.com/driver-x"
  datacenters = ["dc*"]
  node_pool   = "gpu"

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${meta.rack}"
    operator  = "is_set"
  }
  config {
    enabled = true
    limit   = 5
    auth {
      token = "t"
    }
  }
  rollout {
    max_parallel     = 3
    healthy_deadline = "2m"
    min_healthy_time = "5s"
    auto_revert      = true
  }
}

plugin "device-y" {
  file = "bin/device-y"
}
`

func TestPluginBlocksAreRead(t *testing.T) {
	got, err := jobspec.ParsePlugins([]byte(pluginFile), "p.hcl")
	if err != nil {
		t.Fatal(err)
	}
	want := []*jobspec.Plugin{
		{Spec: &model.PluginSpec{
			Name: "driver-x", Datacenters: []string{"dc*"}, NodePool: "gpu", MaxParallel: 3, AutoRevert: true,
			HealthyDeadline: 2 * time.Minute, MinHealthyTime: 5 * time.Second,
			Constraints: []*model.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}, {LTarget: "${meta.rack}", Operand: "is_set"}},
			Release: &model.PluginRelease{Version: "1.2.0", Digest: "sha256:00", Source: "https://example.com/driver-x", Config: map[string]any{
				"enabled": true, "limit": got[0].Spec.Release.Config["limit"], "auth": []any{map[string]any{"token": "t"}},
			}},
		}},
		{Spec: &model.PluginSpec{Name: "device-y", Release: &model.PluginRelease{}}, File: "bin/device-y"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v %+v, want %+v", got[0].Spec, got[0].Spec.Release, want[0].Spec)
	}
}

func TestErrorsInPluginFilesSayWhere(t *testing.T) {
	for src, want := range map[string]string{
		"":                                    "No plugin",
		`plugin "x" {}`:                       "needs one of source",
		"plugin \"x\" {\n  sorce = \"/x\"\n}": "p.hcl:2,3",
		`plugin {}`:                           "Missing name",
		`job "x" {}`:                          "not expected here",
		`plugin "x" { source = "/x" `:         "p.hcl:1",
	} {
		if _, err := jobspec.ParsePlugins([]byte(src), "p.hcl"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", src, err, want)
		}
	}
}
