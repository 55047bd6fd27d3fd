// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/drover-project/drover/core/model"
)

// metaBlock is a block with arbitrary attributes.
type metaBlock struct {
	Body hcl.Body `hcl:",remain"`
}

type poolsFile struct {
	Pools []poolBlock `hcl:"node_pool,block"`
}

type poolBlock struct {
	Name        string     `hcl:"name,label"`
	Description string     `hcl:"description,optional"`
	IdentityTTL string     `hcl:"node_identity_ttl,optional"`
	Meta        *metaBlock `hcl:"meta,block"`
	Scheduler   *scheduler `hcl:"scheduler_config,block"`
}

// scheduler is the scheduler_config of a node pool or a namespace.
type scheduler struct {
	Algorithm        string `hcl:"scheduler_algorithm,optional"`
	Oversubscription *bool  `hcl:"memory_oversubscription_enabled"`
	Preemption       *struct {
		SystemSchedulerEnabled   *bool `hcl:"system_scheduler_enabled"`
		SysBatchSchedulerEnabled *bool `hcl:"sysbatch_scheduler_enabled"`
		BatchSchedulerEnabled    *bool `hcl:"batch_scheduler_enabled"`
		ServiceSchedulerEnabled  *bool `hcl:"service_scheduler_enabled"`
	} `hcl:"preemption_config,block"`
	Queue *struct {
		Weight   int   `hcl:"weight,optional"`
		Ordered  *bool `hcl:"ordered"`
		MaxDepth int   `hcl:"max_depth,optional"`
	} `hcl:"queue,block"`
}

func (s *scheduler) config() *model.NodePoolSchedulerConfiguration {
	if s == nil {
		return nil
	}
	return &model.NodePoolSchedulerConfiguration{
		SchedulerAlgorithm: s.Algorithm, MemoryOversubscriptionEnabled: s.Oversubscription,
		PreemptionConfig: (*model.PreemptionOverride)(s.Preemption), Queue: (*model.QueueConfiguration)(s.Queue),
	}
}

// ParseNodePools parses a file of node_pool blocks. It fails as ParseHCL does.
func ParseNodePools(src []byte, filename string) ([]*model.NodePool, error) {
	var file poolsFile
	back, diags := decodeFile(src, filename, objectShape, &file)
	var out []*model.NodePool
	for _, b := range file.Pools {
		p := &model.NodePool{Name: b.Name, Description: b.Description}
		meta, more := b.Meta.read()
		p.Meta, diags = meta, append(diags, back(more)...)
		if b.IdentityTTL != "" {
			ttl, err := time.ParseDuration(b.IdentityTTL)
			if err != nil {
				diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid duration", Detail: "node_identity_ttl of pool " + quoted(b.Name) + ": " + err.Error(), Subject: startOf(filename).Ptr()})
			}
			p.NodeIdentityTTL = ttl
		}
		p.SchedulerConfiguration = b.Scheduler.config()
		out = append(out, p)
	}
	if !diags.HasErrors() && len(out) == 0 {
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No node pool", Detail: `The file holds no block node_pool "NAME" { ... }.`, Subject: startOf(filename).Ptr()})
	}
	return out, parseError(diags, src, filename)
}

type allowDeny struct {
	Default string   `hcl:"default,optional"`
	Allowed []string `hcl:"allowed,optional"`
	Denied  []string `hcl:"denied,optional"`
}

type namespaceFile struct {
	Name         string     `hcl:"name"`
	Description  string     `hcl:"description,optional"`
	Quota        string     `hcl:"quota,optional"`
	Meta         *metaBlock `hcl:"meta,block"`
	Capabilities *struct {
		EnabledTaskDrivers   []string `hcl:"enabled_task_drivers,optional"`
		DisabledTaskDrivers  []string `hcl:"disabled_task_drivers,optional"`
		EnabledNetworkModes  []string `hcl:"enabled_network_modes,optional"`
		DisabledNetworkModes []string `hcl:"disabled_network_modes,optional"`
	} `hcl:"capabilities,block"`
	NodePools *allowDeny `hcl:"node_pool_config,block"`
	Scheduler *scheduler `hcl:"scheduler_config,block"`
	Vault     *allowDeny `hcl:"vault,block"`
	Consul    *allowDeny `hcl:"consul,block"`
}

// ParseNamespace parses a namespace specification. It fails as ParseHCL does.
func ParseNamespace(src []byte, filename string) (*model.Namespace, error) {
	var f namespaceFile
	back, diags := decodeFile(src, filename, objectShape, &f)
	meta, more := f.Meta.read()
	diags = append(diags, back(more)...)
	n := &model.Namespace{Name: f.Name, Description: f.Description, Quota: f.Quota, Meta: meta}
	if c := f.Capabilities; c != nil {
		n.Capabilities = (*model.NamespaceCapabilities)(c)
	}
	if c := f.NodePools; c != nil {
		n.NodePoolConfiguration = (*model.NamespaceNodePoolConfiguration)(c)
	}
	n.SchedulerConfiguration = (*model.NamespaceSchedulerConfiguration)(f.Scheduler.config())
	if c := f.Vault; c != nil {
		n.VaultConfiguration = (*model.NamespaceVaultConfiguration)(c)
	}
	if c := f.Consul; c != nil {
		n.ConsulConfiguration = (*model.NamespaceConsulConfiguration)(c)
	}
	return n, parseError(diags, src, filename)
}

// decodeFile reads a specification. What it returns puts problems with a part of it to
// where they are in src.
func decodeFile(src []byte, filename string, s shape, into any) (func(hcl.Diagnostics) hcl.Diagnostics, hcl.Diagnostics) {
	body, _, back, diags := parseSpec(src, filename, s)
	if diags.HasErrors() {
		return back, diags
	}
	return back, append(diags, back(gohcl.DecodeBody(body, nil, into))...)
}

func (m *metaBlock) read() (map[string]string, hcl.Diagnostics) {
	if m == nil {
		return nil, nil
	}
	attrs, diags := m.Body.JustAttributes()
	out := map[string]string{}
	for name, a := range attrs {
		name = keyName(name)
		value, more := a.Expr.Value(nil)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		text, err := convert.Convert(value, cty.String)
		if err != nil || text.IsNull() {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid metadata", Detail: "The value of " + quoted(name) + " is not text.", Subject: a.Range.Ptr()})
			continue
		}
		out[name] = text.AsString()
	}
	return out, diags
}

// parseError returns nil if there are no diagnostics.
func parseError(diags hcl.Diagnostics, src []byte, filename string) error {
	if !diags.HasErrors() {
		return nil
	}
	return &ParseError{diags: diags, src: map[string][]byte{filename: src}}
}

// Variable is a parsed variable specification.
type Variable struct {
	Namespace   string            `hcl:"namespace,optional"`
	Path        string            `hcl:"path,optional"`
	Items       map[string]string `hcl:"items"`
	CreateIndex uint64            `hcl:"create_index,optional"`
	ModifyIndex uint64            `hcl:"modify_index,optional"`
}

// ParseVariable parses a variable specification. It fails as ParseHCL does.
func ParseVariable(src []byte, filename string) (*Variable, error) {
	v := &Variable{}
	_, diags := decodeFile(src, filename, variableShape, v)
	return v, parseError(diags, src, filename)
}

// Quote returns text as an HCL string.
func Quote(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}
