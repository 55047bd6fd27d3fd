// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// consulPlugin is the name of the registry to whose config the consul blocks belong.
const consulPlugin = "consul"

// defaultCluster is the name of a consul block that has none.
const defaultCluster = "default"

// Consul is a Consul cluster, as a node reaches it: services of provider "consul" are
// registered with the agent at Address. Keys without a value have the plugin's default; the
// key name of a block becomes its key in Consuls.
type Consul struct {
	Address   string   `json:"address,omitempty"`
	Token     string   `json:"token,omitempty"`
	Auth      string   `json:"auth,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Partition string   `json:"partition,omitempty"`
	SSL       *bool    `json:"ssl,omitempty"`
	VerifySSL *bool    `json:"verify_ssl,omitempty"`
	CAFile    string   `json:"ca_file,omitempty"`
	CertFile  string   `json:"cert_file,omitempty"`
	KeyFile   string   `json:"key_file,omitempty"`
	Timeout   string   `json:"timeout,omitempty"`
	Tags      []string `json:"tags,omitempty"`
	// ServiceIdentity and TaskIdentity are the identities that servers give to services and
	// tasks; nil means none. Nodes log in with them, and with those of jobs, at the auth
	// methods.
	ServiceIdentity   *ConsulIdentity `json:"service_identity,omitempty"`
	TaskIdentity      *ConsulIdentity `json:"task_identity,omitempty"`
	ServiceAuthMethod string          `json:"service_auth_method,omitempty"`
	TaskAuthMethod    string          `json:"task_auth_method,omitempty"`
	// AutoAdvertise registers the node's agent itself; nil means yes. The keys after it are
	// about that service and its check.
	AutoAdvertise                *bool  `json:"auto_advertise,omitempty"`
	ClientServiceName            string `json:"client_service_name,omitempty"`
	ClientHTTPCheckName          string `json:"client_http_check_name,omitempty"`
	ClientFailuresBeforeCritical int    `json:"client_failures_before_critical,omitempty"`
	ClientFailuresBeforeWarning  int    `json:"client_failures_before_warning,omitempty"`
}

// ConsulIdentity is an identity with which workloads log in at Consul.
type ConsulIdentity struct {
	Audience    []string `json:"aud,omitempty"`
	TTL         string   `json:"ttl,omitempty"`
	ExtraClaims []string `json:"extra_claims,omitempty"`
	// Env and File give the token of the identity to the task, too.
	Env  bool `json:"env,omitempty"`
	File bool `json:"file,omitempty"`
}

// Model returns the identity without a name; nil for nil.
func (i *ConsulIdentity) Model() *model.WorkloadIdentity {
	if i == nil {
		return nil
	}
	return &model.WorkloadIdentity{Audience: i.Audience, TTL: Duration(i.TTL, 0), ExtraClaims: i.ExtraClaims, Env: i.Env, File: i.File, ChangeMode: "noop"}
}

// problems says what is wrong with the identity.
func (i *ConsulIdentity) problems(what string, task bool) (out []string) {
	if i == nil {
		return nil
	}
	if len(i.Audience) == 0 || slices.Contains(i.Audience, "") {
		out = append(out, what+": aud must name the audience that the auth method of Consul expects, such as [\"consul.io\"]")
	}
	if ttl, err := time.ParseDuration(i.TTL); i.TTL != "" && (err != nil || ttl < model.MinIdentityTTL) {
		out = append(out, fmt.Sprintf("%s: ttl %q is no duration of at least %s", what, i.TTL, model.MinIdentityTTL))
	}
	for _, c := range (&model.WorkloadIdentity{ExtraClaims: i.ExtraClaims}).Claims() {
		if !slices.Contains(model.ExtraClaims, c) {
			out = append(out, fmt.Sprintf("%s: extra claim %q is none of %q", what, c, model.ExtraClaims))
		}
	}
	if !task && (i.Env || i.File) {
		out = append(out, what+": env and file are for task_identity; only nodes use the token of a service")
	}
	return out
}

// consulProblems says what is wrong with the consul blocks.
func (c *Config) consulProblems() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Consul)) {
		one := c.Consul[name]
		out = append(out, one.ServiceIdentity.problems("consul "+name+": service_identity", false)...)
		out = append(out, one.TaskIdentity.problems("consul "+name+": task_identity", true)...)
	}
	return out
}

// Consuls are Consul clusters, by name.
type Consuls map[string]Consul

// UnmarshalJSON merges the clusters of one more file.
func (c *Consuls) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	if *c == nil {
		*c = Consuls{}
	}
	for name, body := range raw {
		one := (*c)[name]
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&one); err != nil {
			return err
		}
		(*c)[name] = one
	}
	return nil
}

// consulIdle are keys of consul blocks that have no effect, and why.
var consulIdle = map[string]string{
	"allow_unauthenticated": "jobs are registered without tokens of Consul", "checks_use_advertise": "checks always ask the advertised address",
	"client_auto_join": "nodes find servers by client.servers or server_join", "server_auto_join": "servers find each other by server_join",
	"server_service_name": "servers do not register themselves", "server_http_check_name": "servers do not register themselves",
	"server_rpc_check_name": "servers do not register themselves", "server_serf_check_name": "servers do not register themselves",
	"server_failures_before_critical": "servers do not register themselves", "server_failures_before_warning": "servers do not register themselves",
	"grpc_address": "no sidecar proxies are run", "grpc_ca_file": "no sidecar proxies are run", "share_ssl": "no sidecar proxies are run",
}

// tidyConsul turns the consul blocks of a file into a map by their names, and removes keys
// without effect, for which it returns warnings.
func tidyConsul(file string, tree map[string]any) (warnings []string, err error) {
	var blocks []any
	switch v := tree["consul"].(type) {
	case nil:
		return nil, nil
	case []any:
		blocks = v
	case map[string]any:
		blocks = []any{v}
	default:
		return nil, errdefs.InvalidArgumentf("%s: consul must be a block, not %v", file, v)
	}
	named := map[string]any{}
	for _, b := range blocks {
		block, ok := b.(map[string]any)
		if !ok {
			return nil, errdefs.InvalidArgumentf("%s: consul must be a block, not %v", file, b)
		}
		for _, key := range slices.Sorted(maps.Keys(block)) {
			if why, idle := consulIdle[key]; idle {
				warnings = append(warnings, fmt.Sprintf("%s: consul.%s has no effect: %s", file, key, why))
				delete(block, key)
			}
		}
		name, _ := block["name"].(string)
		if name == "" {
			name = defaultCluster
		}
		if _, twice := named[name]; twice {
			return nil, errdefs.InvalidArgumentf("%s: two consul blocks have the name %q; give each cluster a name of its own", file, name)
		}
		delete(block, "name")
		named[name] = block
	}
	tree["consul"] = named
	return warnings, nil
}

// consulConfig returns the config of the registry, or nil without consul blocks.
func (c *Config) consulConfig() map[string]any {
	var clusters []any
	for _, name := range slices.Sorted(maps.Keys(c.Consul)) {
		one := c.Consul[name]
		block := map[string]any{"name": name}
		for key, value := range map[string]string{
			"address": one.Address, "token": one.Token, "auth": one.Auth, "namespace": one.Namespace, "partition": one.Partition, "ca_file": one.CAFile,
			"cert_file": one.CertFile, "key_file": one.KeyFile, "timeout": one.Timeout,
			"service_auth_method": one.ServiceAuthMethod, "task_auth_method": one.TaskAuthMethod,
		} {
			if value != "" {
				block[key] = value
			}
		}
		for key, value := range map[string]*bool{"ssl": one.SSL, "verify_ssl": one.VerifySSL} {
			if value != nil {
				block[key] = *value
			}
		}
		if len(one.Tags) > 0 {
			var tags []any
			for _, t := range one.Tags {
				tags = append(tags, t)
			}
			block["tags"] = tags
		}
		clusters = append(clusters, block)
	}
	if clusters == nil {
		return nil
	}
	return map[string]any{"cluster": clusters}
}

// AddConsul adds the consul blocks to the config of their registry, unless that config names
// clusters itself. It changes the map of plugins, but no config in it.
func (c *Config) AddConsul(configs map[string]map[string]any) {
	own := c.consulConfig()
	if own == nil {
		return
	}
	maps.Copy(own, configs[consulPlugin])
	configs[consulPlugin] = own
}

// consulWarnings says where consul blocks have no effect.
func (c *Config) consulWarnings() (out []string) {
	if _, given := c.Plugins[consulPlugin].Config["cluster"]; given && len(c.Consul) > 0 {
		out = append(out, `the blocks consul have no effect: the block plugin "consul" names clusters itself`)
	}
	identities := 0
	for _, one := range c.Consul {
		if one.ServiceIdentity != nil || one.TaskIdentity != nil {
			identities++
		}
	}
	if len(c.Consul) > identities && !c.Client.Enabled {
		out = append(out, "blocks consul without service_identity or task_identity have no effect: only nodes register services, and this agent is none")
	}
	if identities > 0 && !c.Server.Enabled {
		out = append(out, "service_identity and task_identity of consul have no effect: servers give jobs their identities, and this agent is none")
	}
	return out
}

// Advertised returns the clusters in which the agent registers itself, by name.
func (c *Config) Advertised() map[string]Consul {
	out := map[string]Consul{}
	for name, one := range c.Consul {
		if one.AutoAdvertise != nil && !*one.AutoAdvertise {
			continue
		}
		if one.ClientServiceName == "" {
			one.ClientServiceName = "nomad-client"
		}
		if one.ClientHTTPCheckName == "" {
			one.ClientHTTPCheckName = "Nomad Client HTTP Check"
		}
		out[name] = one
	}
	return out
}

// SetConsul changes the consul block without a name, as the agent's flags do.
func (c *Config) SetConsul(change func(*Consul)) {
	one := c.Consul[defaultCluster]
	change(&one)
	if c.Consul == nil {
		c.Consul = Consuls{}
	}
	c.Consul[defaultCluster] = one
}
