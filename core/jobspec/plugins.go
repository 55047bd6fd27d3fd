// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"context"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/drover-project/drover/core/model"
)

// Plugin is a plugin specification. File is the path of a file to upload, "" if the
// release says where nodes fetch it.
type Plugin struct {
	Spec *model.PluginSpec
	File string
}

type pluginsFile struct {
	Plugins []*pluginBlock `hcl:"plugin,block"`
}

type pluginBlock struct {
	Name        string         `hcl:"name,label"`
	Version     string         `hcl:"version"`
	Digest      string         `hcl:"digest"`
	Source      string         `hcl:"source"`
	File        string         `hcl:"file"`
	Datacenters []string       `hcl:"datacenters"`
	NodePool    string         `hcl:"node_pool"`
	Constraints []*Constraint  `hcl:"constraint,block"`
	Config      map[string]any `hcl:"config,block"`
	Rollout     *rolloutBlock  `hcl:"rollout,block"`
}

type rolloutBlock struct {
	MaxParallel     int       `hcl:"max_parallel"`
	HealthyDeadline *Duration `hcl:"healthy_deadline"`
	MinHealthyTime  *Duration `hcl:"min_healthy_time"`
	AutoRevert      bool      `hcl:"auto_revert"`
}

// ParsePlugins parses a file of plugin blocks. It fails as ParseHCL does.
func ParsePlugins(src []byte, filename string) ([]*Plugin, error) {
	body, diags := parseBody(src, filename)
	if !diags.HasErrors() {
		diags = keepRuntimeVariables(body, src)
	}
	if diags.HasErrors() {
		return nil, parseError(diags, src, filename)
	}
	var file pluginsFile
	d := &decoder{}
	ctx := &hcl.EvalContext{Functions: functions(newBudget(context.Background()), false, ""), Variables: map[string]cty.Value{}}
	d.decodeBlock(&block{name: "file", body: body, ctx: ctx, rng: startOf(filename)}, reflect.ValueOf(&file).Elem())
	var out []*Plugin
	for _, b := range file.Plugins {
		if (b.Source == "") == (b.File == "") {
			d.errorf(startOf(filename), "No file", "Plugin %q needs one of source, a URL or a path that all nodes have, and file, which is uploaded.", b.Name)
		}
		out = append(out, b.plugin())
	}
	if !d.diags.HasErrors() && len(out) == 0 {
		d.errorf(startOf(filename), "No plugin", `The file holds no block plugin "NAME" { ... }.`)
	}
	return out, parseError(d.diags, src, filename)
}

func (b *pluginBlock) plugin() *Plugin {
	p := &model.PluginSpec{
		Name: b.Name, Datacenters: b.Datacenters, NodePool: b.NodePool,
		Release: &model.PluginRelease{Version: b.Version, Digest: b.Digest, Source: b.Source, Config: b.Config},
	}
	for _, c := range b.Constraints {
		if c.Operand == "" {
			c.Operand = "="
		}
		p.Constraints = append(p.Constraints, &model.Constraint{LTarget: c.LTarget, RTarget: c.RTarget, Operand: c.Operand})
	}
	if r := b.Rollout; r != nil {
		p.MaxParallel, p.AutoRevert = r.MaxParallel, r.AutoRevert
		p.HealthyDeadline, p.MinHealthyTime = lasting(r.HealthyDeadline), lasting(r.MinHealthyTime)
	}
	return &Plugin{Spec: p, File: b.File}
}

func lasting(d *Duration) time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(*d)
}
