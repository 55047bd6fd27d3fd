// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// unused are keys of the reference, by block, that are accepted but have no effect
// yet: each causes a warning. A test in internal/repotest checks that all other keys
// have an effect. A commit that makes a key work must remove it here.
var unused = map[string][]string{
	"": {

		"ui", "sentinel", "audit", "reporting", "keyring", "eventlog", "rpc",
		"acl", "vault",
	},
	"client": {
		"alloc_mounts_dir", "common_plugin_dir", "preferred_address_family",
		"bind_wildcard_default_host_network", "cgroup_parent",
		"log_file", "fingerprint",
	},
	"server": {
		"authoritative_region",
		"csi_volume_claim_gc_interval", "csi_volume_claim_gc_threshold", "csi_plugin_gc_threshold",
		"acl_token_gc_threshold",
		"plan_apply_pipeline",
		"log_file",
	},
	"client.template":    {"consul_retry", "vault_retry", "vault_default_lease_duration", "use_client_consul_token"},
	"client.server_join": {"retry_max"},
	"telemetry": {

		"disable_allocation_hook_metrics", "circonus_api_token", "circonus_api_app",
		"circonus_api_url", "circonus_submission_interval", "circonus_submission_url", "circonus_check_id",
		"circonus_check_force_metric_activation", "circonus_check_instance_id", "circonus_check_search_tag", "circonus_check_tags",
		"circonus_check_display_name", "circonus_broker_id", "circonus_broker_select_tag",
	},
}

// fixed are keys whose values operators cannot choose. Values that describe Drover's
// behaviour are accepted; any other value causes a warning that describes it.
var fixed = []struct {
	block, key string
	holds      func(value any) bool // nil: no value describes it
	why        string
}{
	{"", "disable_update_check", on, "nobody is asked for newer versions"},
	{"", "disable_anonymous_signature", on, "nothing is reported to anybody"},
	{"client", "no_host_uuid", on, "a node's id is random"},
	{"client", "cpu_disable_dmidecode", on, "dmidecode is never run"},
	{"client", "client_min_port", nil, "plugins listen on sockets of the file system, not on ports"},
	{"client", "client_max_port", nil, "plugins listen on sockets of the file system, not on ports"},
	{"server", "protocol_version", is("1"), "servers find out by themselves what the others understand"},
	{"server", "raft_protocol", is("3"), "version 3 of the raft protocol is the only one"},
	{"server.search", "limit_query", nil, "a search looks at all objects"},
	{"server", "license_path", nil, "there is no licence to read"},
	{"server", "non_production", nil, "there is no licence that it could concern"},
	{"server", "deploy_query_rate_limit", nil, "deployments are watched without queries"},
	{"server", "raft_logstore", is("map[backend:badger]"), "the log is kept in badger"},
	{"server", "raft_boltdb", nil, "the log is kept in badger"},
	{"server", "job_tracked_versions", is("6"), "six versions of a job are kept, on all servers alike"},
	{"tls", "tls_prefer_server_cipher_suites", on, "the server's order of cipher suites always decides"},
	{"tls", "rpc_upgrade_mode", off, "it is refused"},
	{"telemetry", "disable_quota_utilization_metrics", on, "there are no quotas and so no metrics of them"},
	{"telemetry", "disable_rpc_rate_metrics_labels", on, "there are no metrics of the rate of calls"},
}

func is(text string) func(any) bool { return func(v any) bool { return fmt.Sprint(v) == text } }

// dropFixed removes the keys of fixed from the tree and returns the warnings.
func dropFixed(file string, tree map[string]any) (out []string) {
	for _, f := range fixed {
		at := block(tree, f.block)
		v, given := at[f.key]
		if !given {
			continue
		}
		delete(at, f.key)
		if f.holds == nil || !f.holds(v) {
			out = append(out, fmt.Sprintf("%s: %s has no effect: %s", file, strings.TrimPrefix(f.block+"."+f.key, "."), f.why))
		}
	}
	return out
}

// Unused returns the keys that cause warnings, such as "client.cgroup_parent".
func Unused() []string {
	var out []string
	for section, keys := range unused {
		for _, key := range keys {
			out = append(out, strings.TrimPrefix(section+"."+key, "."))
		}
	}
	slices.Sort(out)
	return out
}

// dropUnused removes keys without effect from the tree and returns a warning for each.
func dropUnused(file string, tree map[string]any) []string {
	out := dropFixed(file, tree)
	for section, keys := range unused {
		prefix := ""
		if section != "" {
			prefix = section + "."
		}
		at := block(tree, section)
		for key := range at {
			if slices.Contains(keys, key) {
				out = append(out, fmt.Sprintf("%s: %s%s is not acted on yet", file, prefix, key))
				delete(at, key)
			}
		}
	}
	if limit, given := block(tree, "server.default_scheduler_config")["node_limit_for_feasibility_checks"]; given && fmt.Sprint(limit) != "0" {
		out = append(out, fmt.Sprintf("%s: server.default_scheduler_config.node_limit_for_feasibility_checks is not acted on: every feasible node is looked at", file))
	}
	for key := range block(tree, "client.options") {
		if !slices.Contains(options(), key) && !strings.HasPrefix(key, pluginOption) {
			out = append(out, fmt.Sprintf("%s: client.options %q has no effect: %s", file, key, instead(key)))
		}
	}
	sort.Strings(out)
	return out
}

// instead says where the settings of an option without effect belong.
func instead(option string) string {
	parts := strings.Split(option, ".")
	switch {
	case parts[0] == "docker":
		return `Docker is configured in plugin "docker" { config { } }`
	case parts[0] == "driver" && len(parts) > 2:
		return fmt.Sprintf("the driver is configured in plugin %q { config { } }, with keys such as enabled", parts[1])
	case parts[0] == "fingerprint":
		return "the node looks for everything that it can use"
	}
	return "docs/configuration.md has the options that there are"
}

// block returns a block of a tree by its path, nil if it does not exist.
func block(tree map[string]any, path string) map[string]any {
	if path == "" {
		return tree
	}
	for part := range strings.SplitSeq(path, ".") {
		tree, _ = tree[part].(map[string]any)
	}
	return tree
}

// dangerous are settings without effect with which an agent must not start, because
// its operator relies on them.
var dangerous = []struct {
	block, key string
	set        func(value any) bool
	why        string
}{
	{"acl", "enabled", on,
		"there is no access control yet: everybody who reaches the agent could do everything. Remove it, and keep others from the ports (tls with verify_https_client, or bind_addr = \"127.0.0.1\")"},
	{"tls", "rpc_upgrade_mode", on, "a port speaks either TLS or not, because one that takes both takes everyone. Remove it, and restart all agents with tls { rpc = true } at one time: tasks run on"},
	{"audit", "enabled", on, "no audit log is written yet. Remove it"},
	{"", "keyring", keptElsewhere, "keys are kept on the servers' disks and wrapped by no other service yet. Remove the block"},
}

// on and off report whether a value is a bool, in any form in which a file may have one.
func on(v any) bool {
	b, err := strconv.ParseBool(strings.ToLower(fmt.Sprint(v)))
	return err == nil && b
}
func off(v any) bool {
	b, err := strconv.ParseBool(strings.ToLower(fmt.Sprint(v)))
	return err == nil && !b
}

// keptElsewhere reports whether keyring blocks name a provider other than the built-in
// one.
func keptElsewhere(v any) bool {
	providers, _ := v.(map[string]any)
	for name, p := range providers {
		settings, _ := p.(map[string]any)
		if active, given := settings["active"]; name != "aead" && (!given || on(active)) {
			return true
		}
	}
	return false
}

// refuseDangerous returns an error if a file has dangerous settings.
func refuseDangerous(file string, tree map[string]any) error {
	for _, d := range dangerous {
		if v, ok := block(tree, d.block)[d.key]; ok && d.set(v) {
			return errdefs.InvalidArgumentf("%s: %s cannot be kept: %s", file, strings.TrimPrefix(d.block+"."+d.key, "."), d.why)
		}
	}
	return nil
}
