// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

// mergedFrom returns the configuration of files in their order.
func mergedFrom(t *testing.T, files ...string) *config.Config {
	t.Helper()
	c := config.Defaults()
	for i, text := range files {
		if err := c.Merge(fmt.Sprintf("%d.hcl", i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestBlocksWithANameAreMergedAcrossFiles(t *testing.T) {
	c := mergedFrom(t, `
plugin "docker" {
  memory_mb  = 500
  filesystem = "restricted"
  config {
    allow_privileged = true
    volumes { enabled = true }
  }
}
client {
  host_volume "data" { path = "/srv" }
  host_network "lan" { cidr = "10.0.0.0/8" }
}`, `
plugin "docker" {
  config {
    pids_limit = 9
    volumes { selinuxlabel = "z" }
  }
}
client {
  host_volume "data" { read_only = true }
  host_network "lan" { reserved_ports = "22" }
}`)
	docker := c.Plugins["docker"]
	if got, want := fmt.Sprint(docker.Config), "map[allow_privileged:true pids_limit:9 volumes:map[enabled:true selinuxlabel:z]]"; got != want {
		t.Errorf("the plugin's config is %s, want %s", got, want)
	}
	if docker.MemoryMB != 500 || docker.Filesystem != "restricted" {
		t.Errorf("the rights of the plugin are %+v", docker.Access)
	}
	if v := c.Client.HostVolumes["data"]; v.Path != "/srv" || !v.ReadOnly {
		t.Errorf("the host volume is %+v", v)
	}
	if n := c.Client.HostNetworks["lan"]; n.CIDR != "10.0.0.0/8" || n.ReservedPorts != "22" {
		t.Errorf("the host network is %+v", n)
	}
}

func TestBlocksOfOneTypeInOneFileAreMergedWhatIsInThemToo(t *testing.T) {
	c := mergedFrom(t, "client {\n meta { a = \"1\" }\n}\nclient {\n meta { b = \"2\" }\n}\n")
	if c.Client.Meta["a"] != "1" || c.Client.Meta["b"] != "2" {
		t.Errorf("meta is %v", c.Client.Meta)
	}
}

func TestSeveralBlocksInAPluginsConfigAllReachIt(t *testing.T) {
	c := mergedFrom(t, "plugin \"podman\" {\n config {\n  socket { name = \"a\" }\n  socket { name = \"b\" }\n  socket { name = \"c\" }\n  gc { container = true }\n }\n}")
	if got, want := fmt.Sprint(c.Plugins["podman"].Config), "map[gc:map[container:true] socket:[map[name:a] map[name:b] map[name:c]]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAKeyThatIsNullOrEmptyIsNotSet(t *testing.T) {
	c := mergedFrom(t, "data_dir = \"/x\"\nregion = null\ndatacenter = \"\"\nbind_addr = \"\"\nlog_level = \"\"\nserver { enabled = true }\nclient {\n gc_interval = \"\"\n node_pool = null\n}\n")
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	if c.Region != "global" || c.Datacenter != "dc1" || c.BindAddr != "0.0.0.0" || c.LogLevel != "INFO" || c.Client.GCInterval != "1m" || c.Client.NodePool != "default" {
		t.Errorf("got %+v", c)
	}
	dev := config.DevDefaults()
	if err := dev.Merge("a.hcl", []byte(`bind_addr = ""`)); err != nil {
		t.Fatal(err)
	}
	if err := dev.Finish(); err != nil || dev.BindAddr != "127.0.0.1" {
		t.Errorf("a development agent listens on %q: %v", dev.BindAddr, err)
	}
	if err := config.Defaults().Merge("a.hcl", []byte("nonsense = null")); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an unknown key that is null: %v", err)
	}
}

func TestValuesThatNoAgentCanActOnAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		`server { raft_trailing_logs = -1 }`:                       "server.raft_trailing_logs -1 must not be negative",
		`server { raft_snapshot_threshold = -1 }`:                  "server.raft_snapshot_threshold -1 must not be negative",
		`server { raft_snapshot_interval = "1ns" }`:                "is less than 5ms",
		`server { job_gc_threshold = "-5s" }`:                      "server.job_gc_threshold \"-5s\" must not be negative",
		`client { max_kill_timeout = "-5s" }`:                      "client.max_kill_timeout \"-5s\" must not be negative",
		`server { start_timeout = "0s" }`:                          "server.start_timeout \"0s\" must be longer than 0",
		`server { num_schedulers = 0 }`:                            "server.num_schedulers 0 must be between 1 and 1024",
		`server { num_schedulers = 100000 }`:                       "server.num_schedulers 100000 must be",
		`server { encrypt = "x" }`:                                 "server.encrypt is not a key",
		`server { data_dir = "x" }`:                                "server.data_dir \"x\" must be an absolute path",
		`client { alloc_dir = "x" }`:                               "client.alloc_dir \"x\" must be an absolute path",
		`client { state_dir = "x" }`:                               "client.state_dir \"x\" must be an absolute path",
		"client {\n host_volume \"a\" { path = \"x\" }\n}":         "client.host_volume \"a\": path \"x\" must be an absolute path",
		"client {\n host_volume \"a\" { read_only = true }\n}":     "client.host_volume \"a\": path is missing",
		`client { node_max_allocs = -1 }`:                          "client.node_max_allocs -1 must not be negative",
		`client { network_speed = -1 }`:                            "client.network_speed -1 must not be negative",
		`client { node_pool = "all" }`:                             "client.node_pool \"all\" is not a node pool",
		`limits { http_max_conns_per_client = -1 }`:                "limits.http_max_conns_per_client -1 must not be negative",
		`limits { rpc_handshake_timeout = "-1s" }`:                 "limits.rpc_handshake_timeout \"-1s\" must not be negative",
		`region = "a b"`:                                           "region \"a b\" must not have spaces",
		`name = "a\nb"`:                                            "name \"a\\nb\" must not have control characters",
		`datacenter = "dc*"`:                                       "datacenter \"dc*\" must not have a *",
		`http_api_response_headers { X-A = "x\r\nSet-Cookie: a" }`: "is not a header of HTTP",
		`telemetry { statsd_address = "x" }`:                       "telemetry.statsd_address: \"x\" is not an address",
		`telemetry { datadog_address = "x:y" }`:                    "telemetry.datadog_address: \"x:y\" is not an address",
		`telemetry { otlp_endpoint = "x" }`:                        "telemetry.otlp_endpoint: \"x\" is not a URL",
		`telemetry { in_memory_retention_period = "-5s" }`:         "must not be negative",
	} {
		c := mergedFrom(t, "data_dir = \"/x\"\nserver { enabled = true }", text)
		if err := c.Finish(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("%s: got %v, want one problem that says %s", text, err, says)
		}
	}
}

func TestKeysOfTLSWithoutTLSCauseWarnings(t *testing.T) {
	for text, says := range map[string]string{
		`tls { ca_file = "/ca.pem" }`:           "tls.ca_file, cert_file and key_file do nothing without tls.http or tls.rpc",
		`tls { verify_https_client = true }`:    "tls.verify_https_client does nothing without tls.http",
		`tls { verify_server_hostname = true }`: "tls.verify_server_hostname does nothing without tls.rpc",
	} {
		c := mergedFrom(t, "data_dir = \"/x\"\nserver { enabled = true }", text)
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, says) }) {
			t.Errorf("%s: warnings are %q", text, c.Warnings)
		}
	}
}

func TestAMisspeltKeyIsProposed(t *testing.T) {
	err := config.Defaults().Merge("a.hcl", []byte("client {\n node_clas = \"x\"\n bridge_network_nmae = \"y\"\n}"))
	for _, want := range []string{`"client.node_clas" (did you mean node_class?)`, `"client.bridge_network_nmae" (did you mean bridge_network_name?)`} {
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAnOptionOfAnOlderReleaseNamesTheBlockThatReplacesIt(t *testing.T) {
	for option, says := range map[string]string{
		"driver.raw_exec.enable": `plugin "raw_exec" { config { } }`, "docker.cleanup.image": `plugin "docker" { config { } }`, "nonsense": "docs/configuration.md",
	} {
		c := mergedFrom(t, fmt.Sprintf("client {\n options {\n  %q = \"1\"\n }\n}", option))
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], option) || !strings.Contains(c.Warnings[0], says) {
			t.Errorf("%s: %q", option, c.Warnings)
		}
	}
}

func TestAKeyThatStandsTwiceInAnObjectIsRefused(t *testing.T) {
	for text, key := range map[string]string{
		`{"client":{"enabled":true},"client":{"meta":{"a":"b"}}}`:                           "client",
		`{"plugin":[{"docker":{"config":{"x":[1,{"a":1,"a":2}]}}}]}`:                        "a",
		`{"plugin":[{"docker":{"config":{}}},{"exec":{"config":{}}}],"client":{"meta":{}}}`: "",
	} {
		err := config.Defaults().Merge("a.json", []byte(text))
		if key == "" && err != nil || key != "" && (!errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), fmt.Sprintf("key %q twice", key))) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
