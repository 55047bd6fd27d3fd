// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestBlocksOnOneLineMayHaveSeveralItemsAsTheReferencesMay(t *testing.T) {
	c := usable(t, `name = "n" region = "r"
ports { http = 5646 rpc = 5647 }
server { enabled = true, bootstrap_expect = 3, server_join { retry_join = ["a", "b"] retry_max = 2 } } # a comment
client { meta { "a" = "b" } options { "driver.allowlist" = "exec", "x" = "y" } reserved { cpu = 5 reserved_ports = "22" } }
plugin "raw_exec" { config { enabled = true, denied_host_uids = "0" } }
plugin "docker" { config { auth { config = "/x" helper = "h" } volumes { enabled = true } allow_caps = ["a", "b"] gc {} } }
limits {}
telemetry { prometheus_metrics = true
  collection_interval = "2s" }
`)
	docker := c.Plugins["docker"].Config
	if c.Name != "n" || c.Region != "r" || c.Ports.HTTP != 5646 || c.Ports.RPC != 5647 || c.Server.BootstrapExpect != 3 ||
		strings.Join(c.Server.ServerJoin.RetryJoin, " ") != "a b" || c.Server.ServerJoin.RetryMax != 2 || c.Client.Meta["a"] != "b" ||
		c.Client.Options["driver.allowlist"] != "exec" || c.Client.Options["x"] != "y" || c.Client.Reserved.CPU != 5 || c.Client.Reserved.Ports != "22" ||
		c.Plugins["raw_exec"].Config["enabled"] != true || c.Plugins["raw_exec"].Config["denied_host_uids"] != "0" ||
		docker["auth"].(map[string]any)["helper"] != "h" || docker["volumes"].(map[string]any)["enabled"] != true || len(docker["allow_caps"].([]any)) != 2 ||
		!c.Telemetry.PrometheusMetrics || c.Telemetry.CollectionInterval != "2s" {
		t.Errorf("got %+v", c)
	}
	// What the agent says to whoever leaves its ports open can be put into its file.
	for _, door := range usable(t, "").OpenDoors() {
		first, _, _ := strings.Cut(door.Close, ", or ")
		closed := usable(t, first)
		for _, still := range closed.OpenDoors() {
			if still.Name == door.Name {
				t.Errorf("%s does not close the door %s", first, door.Name)
			}
		}
	}
}

func TestErrorsInFilesWithBlocksOnOneLineSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"ports { http = 1 rpc = 2 }\nserver { enabled = yes }":  "a.hcl:2,20-23",
		"ports { http = 1 rpc = 2 }\nserver {\n enabled = ]\n}": "a.hcl:3,12",
		"ports { http = 1, rpc = nothing }":                     "a.hcl:1,25-32",
		"ports { http = 1 rpc }":                                "a.hcl:1,",
		"ports { http = 1 2 }":                                  "a.hcl:1,18-19",
	} {
		err := config.Defaults().Merge("a.hcl", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestTextsThatAreNumbersOrBoolsAreThoseAsInTheReferencesFiles(t *testing.T) {
	hcl := `
ports {
  http = "5646"
}
server {
  enabled = "true"
  bootstrap_expect = "1"
  heartbeat_grace = "5s"
}
client {
  enabled = "false"
  node_class = 7
  gc_disk_usage_threshold = "77.5"
  meta {
    n = 1
    b = true
  }
}
telemetry {
  prometheus_metrics = "1"
}
consul {
  ssl = "true"
}`
	js := `{"ports": {"http": "5646"}, "server": [{"enabled": "true", "bootstrap_expect": "1"}], "client": {"enabled": "false", "node_class": 7,
 "gc_disk_usage_threshold": "77.5", "meta": {"n": 1, "b": true}}, "telemetry": {"prometheus_metrics": "1"}, "consul": {"ssl": "true"}}`
	for name, text := range map[string]string{"a.hcl": hcl, "a.json": js} {
		c := config.Defaults()
		c.Client.Enabled = true
		if err := c.Merge(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if c.Ports.HTTP != 5646 || !c.Server.Enabled || c.Server.BootstrapExpect != 1 || c.Client.Enabled || c.Client.NodeClass != "7" ||
			c.Client.GCDiskUsage != 77.5 || c.Client.Meta["n"] != "1" || c.Client.Meta["b"] != "true" || !c.Telemetry.PrometheusMetrics || c.Consul["default"].SSL == nil || !*c.Consul["default"].SSL {
			t.Errorf("%s: got %+v", name, c)
		}
	}
	for text, want := range map[string]string{
		"ports {\n http = \"many\"\n}":      "ports.http must be a whole number, not text",
		"server {\n enabled = \"maybe\"\n}": "server.enabled must be true or false, not text",
		"ports {\n http = \"1.5\"\n}":       "ports.http must be a whole number",
	} {
		if err := config.Defaults().Merge("a.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestUnknownKeysAreNamedByTheirPaths(t *testing.T) {
	err := config.Defaults().Merge("a.hcl", []byte("client {\n stats {\n  x = 1\n }\n template {\n  wait {\n   enabled = true\n  }\n }\n}\nservers = []\nhost_volume \"x\" {\n path = \"/x\"\n}"))
	if err == nil || !strings.Contains(err.Error(), `unknown key "client.stats", "client.template.wait.enabled", "host_volume", "servers"`) {
		t.Errorf("got %v", err)
	}
	err = config.Defaults().Merge("a.hcl", []byte("consul {\n adress = \"x\"\n}"))
	if err == nil || !strings.Contains(err.Error(), `unknown key "consul.default.adress"`) {
		t.Errorf("got %v", err)
	}
	err = config.Defaults().Merge("a.hcl", []byte("client {\n host_volume \"x\" {\n  pat = \"/x\"\n }\n}"))
	if err == nil || !strings.Contains(err.Error(), `unknown key "client.host_volume.x.pat"`) {
		t.Errorf("got %v", err)
	}
}

func TestBlocksOfJSONFilesMayBeLists(t *testing.T) {
	c := config.Defaults()
	if err := c.Merge("a.json", []byte(`{
"server": [{"enabled": true}, {"bootstrap_expect": 3, "server_join": [{"retry_join": ["a"]}]}, {"server_join": {"retry_max": 2}}],
"client": [{"host_volume": [{"a": [{"path": "/a"}]}, {"b": {"path": "/b"}}], "meta": [{"x": "1"}, {"y": 2}]}],
"plugin": [{"raw_exec": [{"config": [{"enabled": true}]}]}, {"other": {"config": {"rule": [{"n": 1}, {"n": 2}]}}}]}`)); err != nil {
		t.Fatal(err)
	}
	if !c.Server.Enabled || c.Server.BootstrapExpect != 3 || len(c.Server.ServerJoin.RetryJoin) != 1 || c.Server.ServerJoin.RetryMax != 2 ||
		c.Client.HostVolumes["a"].Path != "/a" || c.Client.HostVolumes["b"].Path != "/b" || c.Client.Meta["x"] != "1" || c.Client.Meta["y"] != "2" ||
		c.Plugins["raw_exec"].Config["enabled"] != true || len(c.Plugins["other"].Config["rule"].([]any)) != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestNoFormOfAFileStartsAnAgentWithoutTheAccessControlThatItAsksFor(t *testing.T) {
	for name, texts := range map[string][]string{
		"a.hcl":  {`acl { enabled = true }`, `acl { enabled = "TRUE" token_ttl = "30s" }`, `acl { enabled = 1 }`, `acl = { enabled = "1" }`, "acl {\n}\nacl {\n enabled = true\n}"},
		"a.json": {`{"acl": [{"enabled": false}, {"enabled": true}]}`, `{"acl": {"enabled": "T"}}`},
	} {
		for _, text := range texts {
			if err := config.Defaults().Merge(name, []byte(text)); err == nil || !strings.Contains(err.Error(), "acl.enabled cannot be kept") {
				t.Errorf("%s: got %v", text, err)
			}
		}
	}
}

func TestALogLevelThatIsNoneIsRefused(t *testing.T) {
	if err := usable(t, `log_level = "FOO"`).Finish(); err == nil || !strings.Contains(err.Error(), `log_level "FOO" is not one of`) {
		t.Errorf("got %v", err)
	}
	if err := usable(t, `log_level = "debug"`).Finish(); err != nil {
		t.Error(err)
	}
}

func TestQuotedKeysOfABlockAroundAnotherAreRead(t *testing.T) {
	c := &config.Config{}
	if err := c.Merge("a.hcl", []byte("client {\n  meta {\n    \"a\" = \"1\"\n  }\n  \"node_class\" = \"c\"\n}\n")); err != nil {
		t.Fatal(err)
	}
	if c.Client.NodeClass != "c" || c.Client.Meta["a"] != "1" {
		t.Errorf("read %+v", c.Client)
	}
}
