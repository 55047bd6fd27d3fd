// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/schema"
)

// name is the name of the registry.
const name = "consul"

// defaultMethod is the auth method that the setup of the reference makes.
const defaultMethod = "nomad-workloads"

// clusterConfig is a cluster block.
type clusterConfig struct {
	Name      string   `json:"name"`
	Address   string   `json:"address"`
	Token     string   `json:"token"`
	Auth      string   `json:"auth"`
	Namespace string   `json:"namespace"`
	Partition string   `json:"partition"`
	SSL       bool     `json:"ssl"`
	VerifySSL bool     `json:"verify_ssl"`
	CAFile    string   `json:"ca_file"`
	CertFile  string   `json:"cert_file"`
	KeyFile   string   `json:"key_file"`
	Timeout   string   `json:"timeout"`
	Tags      []string `json:"tags"`
	// ServiceMethod and TaskMethod are the auth methods at which workloads log in.
	ServiceMethod string `json:"service_auth_method"`
	TaskMethod    string `json:"task_auth_method"`
}

func text(name, description string) schema.Attribute {
	return schema.Attribute{Name: name, Type: schema.String, Default: "", Description: description}
}

var configSchema = schema.Schema{Attributes: []schema.Attribute{{
	Name: "cluster", Type: schema.BlockList, Required: true, Description: "a Consul cluster, by the agent of this machine",
	Block: &schema.Schema{Attributes: []schema.Attribute{
		{Name: "name", Type: schema.String, Default: registry.DefaultCluster, Description: "by which jobs name it"},
		{Name: "address", Type: schema.String, Default: "127.0.0.1:8500", Description: "HOST:PORT or unix:///PATH of the agent's HTTP API"},
		{Name: "token", Type: schema.String, Default: "", Sensitive: true, Description: "ACL token"},
		{Name: "auth", Type: schema.String, Default: "", Sensitive: true, Description: "USER:PASSWORD of HTTP"},
		text("namespace", "namespace of services of jobs that name none (Consul Enterprise)"),
		text("partition", "admin partition (Consul Enterprise)"),
		{Name: "ssl", Type: schema.Bool, Default: false, Description: "speak TLS"},
		{Name: "verify_ssl", Type: schema.Bool, Default: true, Description: "verify the agent's certificate"},
		text("ca_file", "authorities of the agent's certificate"),
		text("cert_file", "certificate that is presented to the agent"),
		text("key_file", "its key"),
		{Name: "timeout", Type: schema.Duration, Default: "5s", Description: "limit of one request that does not wait"},
		{Name: "service_auth_method", Type: schema.String, Default: defaultMethod, Description: "auth method at which services log in that have an identity"},
		{Name: "task_auth_method", Type: schema.String, Default: defaultMethod, Description: "auth method at which tasks log in that have an identity for Consul"},
		{Name: "tags", Type: schema.ListString, Default: []any{}, Description: "tags of every service"},
	}},
}}}

// cluster is a cluster with its client.
type cluster struct {
	clusterConfig
	api     *consul.Client
	timeout time.Duration
}

// parse makes the clusters of a config.
func parse(body []byte) (map[string]*cluster, error) {
	var cfg struct {
		Cluster []clusterConfig `json:"cluster"`
	}
	if err := json.Unmarshal(body, &cfg); err != nil {
		return nil, errdefs.InvalidArgumentf("decode the config of registry consul: %w", err)
	}
	out := map[string]*cluster{}
	for _, c := range cfg.Cluster {
		if out[c.Name] != nil {
			return nil, errdefs.InvalidArgumentf("two Consul clusters have the name %q; give each another one", c.Name)
		}
		one, err := c.open()
		if err != nil {
			return nil, err
		}
		out[c.Name] = one
	}
	return out, nil
}

// open makes the client of a cluster. It connects to nothing.
func (c clusterConfig) open() (*cluster, error) {
	timeout, err := time.ParseDuration(cmp.Or(c.Timeout, "5s"))
	if err != nil || timeout <= 0 {
		return nil, errdefs.InvalidArgumentf("Consul cluster %q: timeout %q is no duration above 0", c.Name, c.Timeout)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the agent is this machine's
	cfg := &consul.Config{Address: c.Address, Scheme: "http", Token: c.Token, Namespace: c.Namespace, Partition: c.Partition, Transport: transport}
	if c.SSL {
		cfg.Scheme = "https"
	}
	for scheme, with := range map[string]string{"http://": "http", "https://": "https"} {
		if rest, ok := strings.CutPrefix(cfg.Address, scheme); ok {
			cfg.Address, cfg.Scheme = rest, with
		}
	}
	cfg.TLSConfig = consul.TLSConfig{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, InsecureSkipVerify: !c.VerifySSL}
	if c.Auth != "" {
		user, password, _ := strings.Cut(c.Auth, ":")
		cfg.HttpAuth = &consul.HttpBasicAuth{Username: user, Password: password}
	}
	api, err := consul.NewClient(cfg)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("Consul cluster %q: %w", c.Name, err)
	}
	return &cluster{clusterConfig: c, api: api, timeout: timeout}, nil
}
