// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheServersOfANodeComeFromAllKeysWithTheirPortAndOnce(t *testing.T) {
	c := config.Defaults()
	err := c.Merge("a.hcl", []byte(`
data_dir = "/tmp/x"
client {
  enabled = true
  servers = ["10.0.0.1:5000", "10.0.0.2", "one.example"]
  server_join {
    start_join     = ["10.0.0.2:4647"]
    retry_join     = ["[fd00::1]:4647", "fd00::2"]
    retry_interval = "2s"
    retry_max      = 3
  }
}
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.1:5000", "10.0.0.2:4647", "one.example:4647", "[fd00::1]:4647", "[fd00::2]:4647"}
	if got := c.Client.ServerAddresses(); !slices.Equal(got, want) {
		t.Errorf("servers %v, want %v", got, want)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "client.server_join.retry_max is not acted on") {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestAClusterThatCannotWorkIsRefusedBeforeAnythingStarts(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no servers":           {`client { enabled = true }`, `set client { servers = ["HOST:4647"] }`},
		"an address of clouds": {"client {\n enabled = true\n server_join {\n retry_join = [\"provider=aws tag_key=x\"]\n }\n}", "asks a cloud"},
		"a service's port":     {"client {\n enabled = true\n servers = [\"_a._tcp.b:1\"]\n}", "it has no port"},
		"no port":              {"client {\n enabled = true\n servers = [\"host:\"]\n}", "client.servers: \"host:\" is not HOST:PORT"},
		"an URL":               {"client {\n enabled = true\n servers = [\"http://host:4647\"]\n}", "is not HOST:PORT"},
		"a pause":              {"client {\n enabled = true\n servers = [\"h\"]\n server_join {\n retry_interval = \"soon\"\n }\n}", "is not a duration"},
		"too many servers":     {"server {\n enabled = true\n bootstrap_expect = 99\n}", "is not a number of servers"},
		"a cloud of servers":   {"server {\n enabled = true\n server_join {\n retry_join = [\"provider=aws tag_key=x\"]\n }\n}", "asks a cloud"},
		"a negative number":    {"server {\n enabled = true\n retry_max = -1\n}", "must not be negative"},
		"a server's pause":     {"server {\n enabled = true\n retry_interval = \"soon\"\n}", "is not a duration"},
		"TLS without files":    {"server { enabled = true }\ntls {\n rpc = true\n ca_file = \"/ca\"\n}", "tls.cert_file is missing"},
		"an old TLS":           {"server { enabled = true }\ntls { tls_min_version = \"tls10\" }", "not one of tls12, tls13"},
	} {
		cfg := config.Defaults()
		err := cfg.Merge("a.hcl", []byte("data_dir = \"/tmp/x\"\n"+c.text))
		if err == nil {
			err = cfg.Finish()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHowAServerFindsOthers(t *testing.T) {
	for text, want := range map[string]struct {
		expect int
		join   config.Join
	}{
		"": {1, config.Join{}},
		"bootstrap_expect = 3\nserver_join {\nretry_join = [\"10.0.0.1\", \"b.example:5000\"]\nretry_max = 4\nretry_interval = \"2s\"\n}": {
			3, config.Join{ServerJoin: config.ServerJoin{RetryJoin: []string{"10.0.0.1:4648", "b.example:5000"}, RetryInterval: "2s"}, RetryMax: 4}},
		"start_join = [\"a\"]\nretry_join = [\"b\"]\nretry_max = 2\nretry_interval = \"1s\"": { // nothing is begun beside the cluster that is joined
			0, config.Join{ServerJoin: config.ServerJoin{StartJoin: []string{"a:4648"}, RetryJoin: []string{"b:4648"}, RetryInterval: "1s"}, RetryMax: 2}},
	} {
		c := config.Defaults()
		if err := c.Merge("a.hcl", []byte("data_dir = \"/tmp/x\"\nserver {\nenabled = true\nencrypt = \"cg8StVXbQJ0gPvMd9o7yrg==\"\n"+text+"\n}")); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
		if got := c.Join(); c.Server.BootstrapExpect != want.expect || !reflect.DeepEqual(got, want.join) {
			t.Errorf("%s: expect %d, %+v", text, c.Server.BootstrapExpect, got)
		}
		if len(c.Warnings) != 0 {
			t.Errorf("%s: warnings %v", text, c.Warnings)
		}
		if shown := fmt.Sprint(c.Tree()); strings.Contains(shown, "secret") {
			t.Errorf("the key of the gossip is shown: %s", shown)
		}
	}
}

func TestAServersAddressHasTheDefaultPortIfItNamesNone(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1:4647", "10.0.0.1:5000": "10.0.0.1:5000", "::1": "[::1]:4647", "server.example.com": "server.example.com:4647",
		"a b": "", ":4647": "", "provider=aws": "",
	} {
		got, err := config.ServerAddress(text)
		if got != want || (want == "") != errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
