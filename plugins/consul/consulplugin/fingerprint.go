// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/plugins/internal/fingerprint"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// A cluster is asked at this interval. When it has been away for forgotten, jobs that need it
// are no longer placed on the node: its attributes go.
const (
	looks     = 10 * time.Second
	forgotten = time.Minute
)

// seen is what was last known of a cluster.
type seen struct {
	attributes map[string]string
	at         time.Time
}

// Fingerprint implements registry.Registry.
func (r *Registry) Fingerprint(ctx context.Context) (<-chan registry.Fingerprint, error) {
	known := map[*cluster]seen{}
	return fingerprint.Stream(ctx, func(ctx context.Context) (now registry.Fingerprint, _ fingerprint.Again) {
		all, changed := r.all()
		for _, c := range all {
			now.Clusters = append(now.Clusters, c.look(ctx, known))
		}
		return now, fingerprint.Again{After: looks, Changed: changed}
	}), nil
}

// look asks a cluster's agent about itself.
func (c *cluster) look(ctx context.Context, known map[*cluster]seen) registry.Cluster {
	out := registry.Cluster{Name: c.Name}
	self, err := c.self(ctx)
	if err != nil {
		out.Problem = classified(ctx, "ask the Consul agent at "+c.Address, err).Error()
		if k := known[c]; time.Since(k.at) < forgotten {
			out.Attributes = k.attributes
		}
		return out
	}
	out.Healthy, out.Attributes = true, c.attributes(self)
	known[c] = seen{out.Attributes, time.Now()}
	return out
}

func (c *cluster) self(ctx context.Context) (map[string]map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var out map[string]map[string]any
	_, err := c.api.Raw().Query("/v1/agent/self", &out, c.options(ctx, "", ""))
	return out, err
}

// attributes returns what jobs of the reference may name in constraints. Those of a cluster
// other than the default one have its name in them.
func (c *cluster) attributes(self map[string]map[string]any) map[string]string {
	prefix := name + "."
	if c.Name != registry.DefaultCluster {
		prefix += c.Name + "."
	}
	out := map[string]string{}
	put := func(key string, value any) {
		if text := fmt.Sprint(value); value != nil && text != "" {
			out[key] = text
		}
	}
	config, debug := self["Config"], self["DebugConfig"]
	version, _ := config["Version"].(string)
	put(prefix+"version", version)
	put(prefix+"revision", config["Revision"])
	put(prefix+"server", config["Server"])
	put(prefix+"datacenter", config["Datacenter"])
	put(prefix+"partition", config["Partition"])
	put("unique."+prefix+"name", config["NodeName"])
	put(prefix+"segment", debug["SegmentName"])
	put(prefix+"connect", debug["ConnectEnabled"])
	put(prefix+"grpc", debug["GRPCPort"])
	sku := "oss"
	if strings.Contains(version, "ent") {
		sku = "ent"
	}
	put(prefix+"sku", sku)
	put(prefix+"ft.namespaces", c.enterprise(self))
	return out
}

// enterprise reports whether the cluster has namespaces.
func (c *cluster) enterprise(self map[string]map[string]any) bool {
	license, _ := self["Stats"]["license"].(map[string]any)
	features, _ := license["features"].(string)
	return strings.Contains(features, "Namespaces")
}
