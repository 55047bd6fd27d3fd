// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestPortsThatAreOpenBeyondTheMachineAreNamed(t *testing.T) {
	const server, closed = "server { enabled = true }\n", "ca_file = \"a\"\ncert_file = \"b\"\nkey_file = \"c\"\n"
	for _, c := range []struct {
		text string
		want []string
	}{
		{server, []string{"http", "rpc"}},
		{server + `bind_addr = "127.0.0.1"`, nil},
		{server + `bind_addr = "::1"`, nil},
		{server + `bind_addr = "10.0.0.1"` + "\n" + `addresses { http = "localhost" }`, []string{"rpc"}},
		{server + "tls {\nhttp = true\nrpc = true\n" + closed + "}", []string{"http"}},
		{server + "tls {\nhttp = true\nrpc = true\nverify_https_client = true\n" + closed + "}", nil},
		{"client { enabled = true }", []string{"http"}},
	} {
		cfg := config.Defaults()
		if err := cfg.Merge("a.hcl", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range cfg.OpenDoors() {
			got = append(got, d.Name)
			if text := d.String(); !strings.Contains(text, "whoever reaches it can ") || !strings.Contains(text, "To close it: tls { "+d.Name+" = true") {
				t.Errorf("%s: %s", c.text, text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.text, got, c.want)
		}
	}
	if doors := config.DevDefaults().OpenDoors(); len(doors) > 0 {
		t.Errorf("a dev agent: %v", doors)
	}
}
