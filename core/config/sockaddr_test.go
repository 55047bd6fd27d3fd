// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

// usable returns a configuration that lacks nothing but what a test adds.
func usable(t *testing.T, text string) *config.Config {
	t.Helper()
	c := config.Defaults()
	c.DataDir, c.Server.Enabled = t.TempDir(), true
	if err := c.Merge("agent.hcl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTemplatesOfAddressesAreResolved(t *testing.T) {
	const loopback = `{{ GetAllInterfaces | include \"flags\" \"loopback\" | include \"type\" \"IPv4\" | limit 1 | attr \"address\" }}`
	const name = `{{ GetAllInterfaces | include \"flags\" \"loopback\" | limit 1 | attr \"name\" }}`
	c := usable(t, strings.NewReplacer("ADDRESS", loopback, "NAME", name).Replace(`
bind_addr = "ADDRESS"
addresses {
  rpc = "ADDRESS"
}
advertise {
  http = "ADDRESS:5646"
  serf = "ADDRESS"
}
client {
  network_interface = "NAME"
  host_network "public" {
    interface = "NAME"
  }
}`))
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]string{
		"the HTTP API's": c.ListenHTTP(), "the rpc port's": c.ListenRPC(), "the gossip's": c.ListenSerf(),
		"the HTTP API's advertised": c.AdvertiseHTTP(), "the rpc port's advertised": c.AdvertiseRPC(), "the gossip's advertised": c.AdvertiseSerf(),
	} {
		if !strings.HasPrefix(at, "127.") {
			t.Errorf("%s address is %q", what, at)
		}
	}
	if !strings.HasSuffix(c.AdvertiseHTTP(), ":5646") {
		t.Errorf("the port of an advertised address is lost: %q", c.AdvertiseHTTP())
	}
	if strings.Contains(c.Client.NetworkInterface+c.Client.HostNetworks["public"].Interface, "{") || c.Client.NetworkInterface == "" {
		t.Errorf("interfaces: %q, %q", c.Client.NetworkInterface, c.Client.HostNetworks["public"].Interface)
	}
	if doors := c.OpenDoors(); len(doors) != 0 {
		t.Errorf("a loopback address from a template is told to be open: %v", doors)
	}
}

func TestAddressesThatAreNoneOrSeveralAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`bind_addr = "{{ GetInterfaceIP \"nosuch0\" }}"`:                        `bind_addr: the template "{{ GetInterfaceIP \"nosuch0\" }}" has no result on this machine`,
		"advertise {\n http = \"{{ GetInterfaceIP \\\"nosuch0\\\" }}:4646\"\n}": "advertise.http: the template",
		"addresses {\n rpc = \"{{ GetNothing }}\"\n}":                           `addresses.rpc: the template "{{ GetNothing }}" cannot be read`,
		"addresses {\n http = \"127.0.0.1 127.0.0.2\"\n}":                       `addresses.http is "127.0.0.1 127.0.0.2", which is several`,
	} {
		if err := usable(t, text).Finish(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
