// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"github.com/drover-project/drover/core/model"
)

// fillEmpty gives keys that are set to "" their defaults, as if they were not set.
func (c *Config) fillEmpty() {
	from := Defaults()
	if c.Dev {
		from = DevDefaults()
	}
	for _, key := range []struct{ value, otherwise *string }{
		{&c.Region, &from.Region}, {&c.Datacenter, &from.Datacenter}, {&c.BindAddr, &from.BindAddr}, {&c.LogLevel, &from.LogLevel},
		{&c.Client.NodePool, &from.Client.NodePool}, {&c.Client.MaxKillTimeout, &from.Client.MaxKillTimeout}, {&c.Client.GCInterval, &from.Client.GCInterval},
		{&c.Telemetry.CollectionInterval, &from.Telemetry.CollectionInterval}, {&c.Telemetry.InMemoryCollectionInterval, &from.Telemetry.InMemoryCollectionInterval},
		{&c.Telemetry.InMemoryRetentionPeriod, &from.Telemetry.InMemoryRetentionPeriod},
	} {
		*key.value = cmp.Or(*key.value, *key.otherwise)
	}
}

// durationProblems lists values that are no durations, or negative.
func (c *Config) durationProblems() (out []string) {
	durations := c.durations()
	for _, key := range slices.Sorted(maps.Keys(durations)) {
		switch d, err := ParseDuration(durations[key]); {
		case err != nil:
			out = append(out, fmt.Sprintf("%s: %q is not a duration such as \"30s\"", key, durations[key]))
		case d < 0:
			out = append(out, fmt.Sprintf("%s %q must not be negative", key, durations[key]))
		}
	}
	if d := Duration(c.Server.RaftSnapshotInterval, time.Second); 0 <= d && d < leastSnapshotCheck {
		out = append(out, fmt.Sprintf("server.raft_snapshot_interval %q is less than %s", c.Server.RaftSnapshotInterval, leastSnapshotCheck))
	}
	if d := Duration(c.Server.StartTimeout, time.Second); d == 0 {
		out = append(out, fmt.Sprintf("server.start_timeout %q must be longer than 0", c.Server.StartTimeout))
	}
	return out
}

const (
	// leastSnapshotCheck is the shortest raft_snapshot_interval that raft takes.
	leastSnapshotCheck = 5 * time.Millisecond
	// maxSchedulers limits num_schedulers, as the API does.
	maxSchedulers = 1024
)

// numberProblems lists numbers out of their range.
func (c *Config) numberProblems() (out []string) {
	orZero := func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"client.network_speed", c.Client.NetworkSpeed},
		{"client.node_max_allocs", c.Client.NodeMaxAllocs},
		{"server.raft_snapshot_threshold", c.Server.RaftSnapshotThreshold},
		{"server.raft_trailing_logs", c.Server.RaftTrailingLogs},
		{"limits.http_max_conns_per_client", orZero(c.Limits.HTTPMaxConnsPerClient)},
		{"limits.rpc_max_conns_per_client", orZero(c.Limits.RPCMaxConnsPerClient)},
	} {
		if n.value < 0 {
			out = append(out, fmt.Sprintf("%s %d must not be negative", n.key, n.value))
		}
	}
	if n := c.Server.NumSchedulers; n != nil && (*n < 1 || *n > maxSchedulers) {
		out = append(out, fmt.Sprintf("server.num_schedulers %d must be between 1 and %d: the leader's workers schedule everything", *n, maxSchedulers))
	}
	return out
}

// pathProblems lists directories that would depend on the directory in which the agent is
// started, and host volumes without one.
func (c *Config) pathProblems() (out []string) {
	absolute := func(key, path string) {
		if !filepath.IsAbs(path) {
			out = append(out, fmt.Sprintf("%s %q must be an absolute path", key, path))
		}
	}
	for _, dir := range [][2]string{
		{"data_dir", c.DataDir}, {"server.data_dir", c.Server.DataDir}, {"client.state_dir", c.Client.StateDir}, {"client.alloc_dir", c.Client.AllocDir},
		{"client.host_volumes_dir", c.Client.HostVolumesDir}, {"client.host_volume_plugin_dir", c.Client.HostVolumePluginDir},
	} {
		if dir[1] != "" {
			absolute(dir[0], dir[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Client.HostVolumes)) {
		key := fmt.Sprintf("client.host_volume %q: path", name)
		if path := c.Client.HostVolumes[name].Path; path == "" {
			out = append(out, key+" is missing: name a directory of the machine")
		} else {
			absolute(key, path)
		}
	}
	return out
}

// textProblems lists texts that cannot be what their keys say.
func (c *Config) textProblems() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, name := range [][2]string{{"region", c.Region}, {"datacenter", c.Datacenter}, {"name", c.Name}, {"client.node_class", c.Client.NodeClass}} {
		if strings.ContainsFunc(name[1], unicode.IsControl) {
			add("%s %q must not have control characters", name[0], name[1])
		}
	}
	if strings.ContainsAny(c.Region, " /") {
		add("region %q must not have spaces or slashes: it is part of the names of certificates and servers", c.Region)
	}
	if strings.Contains(c.Datacenter, "*") {
		add("datacenter %q must not have a *, which stands for several in job files", c.Datacenter)
	}
	if pool := c.Client.NodePool; pool != "" && !model.IsPoolOfNode(pool) {
		add("client.node_pool %q is not a node pool of a node; use at most 128 letters, digits, dashes and underscores, and not \"all\"", pool)
	}
	if key := c.Server.Encrypt; key != "" {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(raw) != 16 && len(raw) != 24 && len(raw) != 32 {
			add("server.encrypt is not a key: give 16, 24 or 32 bytes in base64, as `drover operator gossip keyring generate` prints")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if value := c.Headers[name]; !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			add("http_api_response_headers: %q = %q is not a header of HTTP", name, value)
		}
	}
	return append(out, c.Telemetry.sinkProblems()...)
}

// sinkProblems lists addresses to which no metrics can be sent.
func (t *Telemetry) sinkProblems() (out []string) {
	for _, sink := range [][2]string{{"statsd_address", t.StatsdAddress}, {"statsite_address", t.StatsiteAddress}, {"datadog_address", t.DatadogAddress}} {
		key, address := sink[0], sink[1]
		if address == "" || key == "datadog_address" && strings.HasPrefix(address, "unix://") {
			continue
		}
		if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
			out = append(out, fmt.Sprintf("telemetry.%s: %q is not an address; give HOST:PORT, as 127.0.0.1:8125", key, address))
		}
	}
	if t.OTLPEndpoint != "" {
		if u, err := url.Parse(t.OTLPEndpoint); err != nil || u.Host == "" {
			out = append(out, fmt.Sprintf("telemetry.otlp_endpoint: %q is not a URL; give one as http://127.0.0.1:4318 or grpc://127.0.0.1:4317", t.OTLPEndpoint))
		}
	}
	return out
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
