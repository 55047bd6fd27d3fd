// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestAReloadTakesTheKeysThatCanChangeAndNamesTheOthers(t *testing.T) {
	before, err := finish(t, "log_level = \"INFO\"\nclient {\n  meta { rack = \"a\" }\n}\ntls { ca_file = \"/a\" }\n")
	if err != nil {
		t.Fatal(err)
	}
	next, err := finish(t, "log_level = \"DEBUG\"\nregion = \"eu\"\nclient {\n  meta { rack = \"b\" }\n  servers = [\"x:1\"]\n  server_join { retry_interval = \"7s\" }\n}\ntls {\n  ca_file = \"/b\"\n  rpc = true\n cert_file = \"/c\"\n key_file = \"/d\"\n}\nserver {\n  encrypt = \"cg8StVXbQJ0gPvMd9o7yrg==\"\n num_schedulers = 3\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	now, taken, left := before.Reload(next)
	if want := []string{"client.servers", "log_level", "server.num_schedulers", "tls.ca_file", "tls.cert_file", "tls.key_file"}; !slices.Equal(taken, want) {
		t.Errorf("taken %q, want %q", taken, want)
	}
	if want := []string{"client.meta.rack", "client.server_join.retry_interval", "region", "server.encrypt", "tls.rpc"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	if now.LogLevel != "DEBUG" || now.Region != "global" || now.TLS.CAFile != "/b" || now.TLS.RPC {
		t.Errorf("%+v", now)
	}
	if again, taken, left := now.Reload(now); len(taken)+len(left) > 0 || again.LogLevel != "DEBUG" {
		t.Errorf("a reload without a change takes %q and leaves %q", taken, left)
	}
}

func TestExactlyTheReloadableKeysAreTaken(t *testing.T) {
	for _, k := range surfaceKeys(t) {
		if !k.leaf {
			continue
		}
		next := config.Defaults()
		if err := next.Merge("a.hcl", []byte(k.source())); err != nil {
			continue // refused
		}
		_, taken, left := config.Defaults().Reload(next)
		for _, key := range taken {
			if !config.IsReloadable(key) {
				t.Errorf("%s is taken, and config.Reloadable lacks it", key)
			}
		}
		for _, key := range left {
			if config.IsReloadable(key) {
				t.Errorf("%s is left, and config.Reloadable has it", key)
			}
		}
	}
}

func TestTheTableOfReloadableKeysIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## Reloading\n")
	if !found {
		t.Fatal("docs/configuration.md has no section Reloading")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var want strings.Builder
	for _, key := range slices.Sorted(maps.Keys(config.Reloadable)) {
		want.WriteString("| `" + key + "` | " + config.Reloadable[key] + " |\n")
	}
	if !strings.Contains(table, want.String()) {
		t.Errorf("the table in docs/configuration.md must be\n%s", want.String())
	}
}
