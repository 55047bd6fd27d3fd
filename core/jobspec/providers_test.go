// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
)

// TestAServiceIsPlacedWhereItsProviderIs also has the providers that the reference knows.
func TestAServiceIsPlacedWhereItsProviderIs(t *testing.T) {
	for service, want := range map[string][]string{
		`provider = "nomad"`:                      {"${attr.nomad.service_discovery} = true", "${attr.nomad.version} semver >= 1.4.0"},
		`provider = "consul"`:                     {"${attr.consul.version} semver >= 1.8.0"},
		`cluster = "west"`:                        {"${attr.consul.west.version} semver >= 1.8.0"},
		`provider = "etcd"`:                       {"${attr.etcd.version} is_set "},
		"provider = \"etcd\"\ncluster = \"west\"": {"${attr.etcd.west.version} is_set "},
	} {
		draft, err := jobspec.ParseHCL([]byte(fmt.Sprintf(`job "j" {
  group "g" {
    service {
      name = "s"
      %s
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}`, service)), jobspec.Options{})
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		job, err := draft.Canonical()
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		if err := job.Validate(); err != nil {
			t.Errorf("%s: %v", service, err)
		}
		var got []string
		for _, c := range job.TaskGroups[0].Constraints {
			got = append(got, c.LTarget+" "+c.Operand+" "+c.RTarget)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the group has the constraints %q, want %q", service, got, want)
		}
	}
}
