// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Reloadable are the keys and blocks that a running agent applies when it reads its
// configuration again, with the moment at which they take effect. All others need a
// restart. docs/configuration.md has this table; a test compares them.
var Reloadable = map[string]string{
	"log_level":                  "from the next line on",
	"log_json":                   "from the next line on",
	"log_include_location":       "from the next line on",
	"log_file":                   "the new file is opened; the same one is opened again, for programs that move it away",
	"log_rotate_bytes":           "from the next line on",
	"log_rotate_duration":        "from the next line on",
	"log_rotate_max_files":       "at the next rotation",
	"enable_syslog":              "from the next line on",
	"syslog_facility":            "from the next line on",
	"leave_on_interrupt":         "at the next signal",
	"leave_on_terminate":         "at the next signal",
	"client.drain_on_shutdown":   "at the next signal",
	"client.servers":             "the connection stays if it is to one of them",
	"client.server_join":         "the addresses; retry_interval needs a restart",
	"server.num_schedulers":      "busy workers finish what they have",
	"tls.ca_file":                "from the next handshake on; connections stay",
	"tls.cert_file":              "from the next handshake on; connections stay",
	"tls.key_file":               "from the next handshake on; connections stay",
	"tls.verify_server_hostname": "from the next handshake on; connections stay",
	"tls.verify_https_client":    "from the next handshake on; connections stay",
	"tls.tls_min_version":        "from the next handshake on; connections stay",
	"tls.tls_cipher_suites":      "from the next handshake on; connections stay",
}

// kept are keys within a block of Reloadable that need a restart.
var kept = []string{"client.server_join.retry_interval"}

// Reload returns the new configuration of a running agent with the configuration c that has
// read next: only the reloadable keys change. taken and left are the changed keys that take
// effect and that need a restart.
func (c *Config) Reload(next *Config) (now *Config, taken, left []string) {
	out := *c
	out.KeepLog(next)
	out.LeaveOnInt, out.LeaveOnTerm, out.Client.Drain = next.LeaveOnInt, next.LeaveOnTerm, next.Client.Drain
	out.Client.Servers, out.Client.ServerJoin = next.Client.Servers, next.Client.ServerJoin
	out.Client.ServerJoin.RetryInterval = c.Client.ServerJoin.RetryInterval
	out.Server.NumSchedulers = next.Server.NumSchedulers
	out.TLS = next.TLS
	out.TLS.HTTP, out.TLS.RPC = c.TLS.HTTP, c.TLS.RPC
	out.Files, out.Warnings = next.Files, next.Warnings
	return &out, changes(c, &out), changes(&out, next)
}

// KeepLog gives c the settings of the log of another configuration.
func (c *Config) KeepLog(of *Config) {
	c.LogLevel, c.LogJSON, c.LogLocation, c.LogFile = of.LogLevel, of.LogJSON, of.LogLocation, of.LogFile
	c.LogRotateBytes, c.LogRotateDuration, c.LogRotateMaxFiles = of.LogRotateBytes, of.LogRotateDuration, of.LogRotateMaxFiles
	c.EnableSyslog, c.SyslogFacility = of.EnableSyslog, of.SyslogFacility
}

// changes lists the keys whose values differ.
func changes(a, b *Config) []string {
	before, after := map[string]any{}, map[string]any{}
	leaves("", a.tree(), before)
	leaves("", b.tree(), after)
	changed := map[string]bool{}
	for _, keys := range []map[string]any{before, after} {
		for key := range keys {
			if !reflect.DeepEqual(before[key], after[key]) {
				changed[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// leaves flattens a tree: its keys become paths, such as "client.meta.rack".
func leaves(prefix string, v any, out map[string]any) {
	block, ok := v.(map[string]any)
	if !ok {
		out[prefix] = v
		return
	}
	for key, value := range block {
		leaves(strings.TrimPrefix(prefix+"."+key, "."), value, out)
	}
}

// IsReloadable reports whether a key takes effect without a restart.
func IsReloadable(key string) bool {
	if slices.Contains(kept, key) {
		return false
	}
	for known := range Reloadable {
		if key == known || strings.HasPrefix(key, known+".") {
			return true
		}
	}
	return false
}

// tree returns the configuration as generic JSON values, secrets included.
func (c *Config) tree() map[string]any {
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("a configuration is plain data: %v", err))
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(fmt.Sprintf("a configuration is plain data: %v", err))
	}
	return out
}
