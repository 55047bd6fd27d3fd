// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/drover-project/drover/sdk/errdefs"
)

// maxFileBytes bounds one configuration file.
const maxFileBytes = 4 << 20

// Load reads files and folders (their *.hcl and *.json files, by name) over c,
// in order: later values win, maps and blocks are merged, lists are replaced.
func (c *Config) Load(paths ...string) error {
	for _, p := range paths {
		files, err := expand(p)
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := c.loadFile(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// expand returns the configuration files of a path.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if !e.IsDir() && (ext == ".hcl" || ext == ".json") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") {
			files = append(files, filepath.Join(path, name))
		}
	}
	sort.Strings(files)
	return files, nil
}

func (c *Config) loadFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if info.Size() > maxFileBytes {
		return errdefs.InvalidArgumentf("%s has %d bytes; a configuration file has at most %d", path, info.Size(), maxFileBytes)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := c.Merge(path, src); err != nil {
		return err
	}
	c.Files = append(c.Files, path)
	return nil
}

// Merge reads one file's text over c. JSON is told by its name or its first character.
func (c *Config) Merge(name string, src []byte) error {
	tree, err := parseTree(name, src)
	if err != nil {
		return err
	}
	c.Warnings = append(c.Warnings, dropUnused(name, tree)...)
	text, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return errdefs.InvalidArgumentf("%s: %s", name, readable(err))
	}
	if c.Dev {
		// A dev agent is server and node whatever a file says: files that are
		// written for other agents often say false.
		c.Client.Enabled, c.Server.Enabled = true, true
	}
	return nil
}

func readable(err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "json: unknown field "); ok {
		return "unknown key " + rest + "; see docs/configuration.md for the keys"
	}
	return strings.Replace(text, "json: cannot unmarshal", "wrong type: got a", 1)
}

func parseTree(name string, src []byte) (map[string]any, error) {
	if strings.HasSuffix(name, ".json") || bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		var tree map[string]any
		if err := json.Unmarshal(src, &tree); err != nil {
			return nil, errdefs.InvalidArgumentf("%s is no JSON object: %v", name, err)
		}
		flattenLists(tree)
		return tree, nil
	}
	file, diags := hclsyntax.ParseConfig(allowQuotedKeys(src, name), name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, errdefs.New(errdefs.InvalidArgument, diags)
	}
	tree, diags := bodyTree(file.Body.(*hclsyntax.Body), 0)
	if diags.HasErrors() {
		return nil, errdefs.New(errdefs.InvalidArgument, diags)
	}
	return tree, nil
}

// flattenLists turns the [{...}] that JSON may use for a block into the object.
func flattenLists(tree map[string]any) {
	for k, v := range tree {
		if list, ok := v.([]any); ok && len(list) == 1 {
			if obj, ok := list[0].(map[string]any); ok {
				v, tree[k] = obj, obj
			}
		}
		if obj, ok := v.(map[string]any); ok {
			flattenLists(obj)
		}
	}
}

// maxDepth bounds nested blocks.
const maxDepth = 16

// bodyTree turns a body into generic values: a block is a map under its type,
// and under its label below that.
func bodyTree(body *hclsyntax.Body, depth int) (map[string]any, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	out := map[string]any{}
	if depth > maxDepth {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Blocks are nested too deeply", Subject: body.SrcRange.Ptr()}}
	}
	for name, attr := range body.Attributes {
		v, d := attr.Expr.Value(nil)
		diags = append(diags, d...)
		if d.HasErrors() {
			continue
		}
		text, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
		if err != nil || !v.IsWhollyKnown() || v.Type() == cty.DynamicPseudoType {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Value is not known", Subject: attr.SrcRange.Ptr()})
			continue
		}
		var value any
		if err := json.Unmarshal(text, &value); err == nil {
			out[name] = value
		}
	}
	for _, block := range body.Blocks {
		inner, d := bodyTree(block.Body, depth+1)
		diags = append(diags, d...)
		at := out
		for _, key := range append([]string{block.Type}, block.Labels...) {
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		for k, v := range inner {
			at[k] = v
		}
	}
	return out, diags
}

// unused are keys of the reference that are read but not acted on yet.
var unused = map[string][]string{
	"": {
		"log_rotate_duration", "log_rotate_bytes", "log_rotate_max_files", "enable_syslog", "syslog_facility", "disable_update_check",
		"disable_anonymous_signature", "ui", "sentinel", "autopilot", "audit", "reporting", "keyring", "eventlog", "rpc",
		"acl", "consul", "vault",
	},
	"client": {
		"alloc_mounts_dir", "host_volumes_dir", "host_volume_plugin_dir", "common_plugin_dir", "preferred_address_family",
		"cpu_disable_dmidecode", "client_max_port", "client_min_port", "gc_volumes_on_node_gc", "no_host_uuid",
		"cni_path", "cni_config_dir", "bridge_network_name", "bridge_network_subnet", "bridge_network_subnet_ipv6",
		"bridge_network_hairpin_mode", "bind_wildcard_default_host_network", "cgroup_parent", "nomad_service_discovery",
		"users", "log_file", "fingerprint",
	},
	"server": {
		"authoritative_region", "client_introduction", "protocol_version", "raft_protocol", "raft_multiplier", "enabled_schedulers",
		"csi_volume_claim_gc_interval", "csi_volume_claim_gc_threshold", "csi_plugin_gc_threshold",
		"acl_token_gc_threshold", "root_key_gc_interval", "root_key_gc_threshold", "root_key_rotation_threshold",
		"max_heartbeats_per_second", "failover_heartbeat_ttl", "start_join", "retry_join", "retry_max", "retry_interval",
		"rejoin_after_leave", "non_voting_server", "redundancy_zone", "upgrade_version", "encrypt", "server_join",
		"default_scheduler_config", "plan_rejection_tracker", "plan_apply_pipeline", "enable_event_broker", "event_buffer_size",
		"license_path", "search", "deploy_query_rate_limit", "raft_logstore", "raft_boltdb", "raft_snapshot_interval",
		"job_tracked_versions", "oidc_issuer",
		"start_timeout", "log_file", "non_production",
	},
	"client.template":    {"consul_retry", "vault_retry", "vault_default_lease_duration", "use_client_consul_token"},
	"client.server_join": {"retry_max"},
	"tls":                {"rpc_upgrade_mode", "tls_cipher_suites"},
	"limits":             {"https_handshake_timeout", "rpc_handshake_timeout", "rpc_max_conns_per_client"},
	"telemetry": {
		"disable_quota_utilization_metrics",
		"disable_rpc_rate_metrics_labels", "disable_allocation_hook_metrics", "circonus_api_token", "circonus_api_app",
		"circonus_api_url", "circonus_submission_interval", "circonus_submission_url", "circonus_check_id",
		"circonus_check_force_metric_activation", "circonus_check_instance_id", "circonus_check_search_tag", "circonus_check_tags",
		"circonus_check_display_name", "circonus_broker_id", "circonus_broker_select_tag",
	},
}

// dropUnused takes the keys that are not acted on out of the tree and returns a
// warning for each.
func dropUnused(file string, tree map[string]any) []string {
	var out []string
	for section, keys := range unused {
		at, prefix := tree, ""
		if section != "" {
			for part := range strings.SplitSeq(section, ".") {
				at, _ = at[part].(map[string]any) // nil, where there is none, has no keys
			}
			prefix = section + "."
		}
		for key := range at {
			if slices.Contains(keys, key) {
				out = append(out, fmt.Sprintf("%s: %s%s is not acted on yet", file, prefix, key))
				delete(at, key)
			}
		}
	}
	sort.Strings(out)
	return out
}
