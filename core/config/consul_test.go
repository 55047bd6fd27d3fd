// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
)

func TestConsulBlocksAreClustersOfTheRegistry(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("x.hcl", []byte(`
consul {
  address            = "127.0.0.1:8501"
  ssl                = true
  tags               = ["a"]
  server_auto_join   = true
  service_auth_method = "of-services"
  service_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
}
consul {
  name           = "east"
  token          = "t"
  auto_advertise = false
}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Merge("y.json", []byte(`{"consul": {"namespace": "ns"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]any{}
	c.AddConsul(got)
	want := map[string]map[string]any{"consul": {"cluster": []any{
		map[string]any{"name": "default", "address": "127.0.0.1:8501", "ssl": true, "namespace": "ns", "tags": []any{"a"}, "service_auth_method": "of-services"},
		map[string]any{"name": "east", "token": "t"},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the registry gets %v, want %v", got, want)
	}
	id := c.Consul["default"].ServiceIdentity.Model()
	if id == nil || id.TTL != time.Hour || !slices.Equal(id.Audience, []string{"consul.io"}) || c.Consul["default"].TaskIdentity.Model() != nil {
		t.Errorf("the identity of services: %+v", id)
	}
	if adv := c.Advertised(); len(adv) != 1 || adv["default"].ClientServiceName != "nomad-client" {
		t.Errorf("advertised: %+v", adv)
	}
	if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "consul.server_auto_join has no effect") }) {
		t.Errorf("warnings: %q", c.Warnings)
	}
	none := map[string]map[string]any{}
	defaults := config.Defaults()
	if defaults.AddConsul(none); len(none) > 0 {
		t.Errorf("without blocks: %v", none)
	}
}

func TestTwoConsulBlocksOfOneNameAreRefused(t *testing.T) {
	c := config.Defaults()
	for _, src := range []string{"consul {}\nconsul { name = \"default\" }", "consul = 7", "consul { adress = \"x\" }"} {
		if err := c.Merge("x.hcl", []byte(src)); err == nil {
			t.Errorf("%s: accepted", src)
		}
	}
}

func TestIdentitiesForConsulThatCannotWorkAreRefused(t *testing.T) {
	for src, want := range map[string]string{
		"service_identity {\n}":                                       "aud must name the audience",
		"task_identity {\n aud = [\"a\"]\n ttl = \"1s\"\n}":           "at least 5s",
		"task_identity {\n aud = [\"a\"]\n extra_claims = [\"x\"]\n}": "extra claim",
		"service_identity {\n aud = [\"a\"]\n file = true\n}":         "only nodes use the token",
	} {
		c := config.DevDefaults()
		if err := c.Merge("x.hcl", []byte("consul {\n"+src+"\n}")); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}
