// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package taskenv

import (
	"regexp"
	"strings"

	"github.com/drover-project/drover/core/model"
)

func facts(n *model.Node, region string) map[string]string {
	if n == nil {
		return map[string]string{}
	}
	out := map[string]string{
		"node.unique.id": n.ID, "node.unique.name": n.Name, "node.datacenter": n.Datacenter,
		"node.region": region, "node.class": n.NodeClass, "node.pool": n.NodePool,
	}
	for k, v := range n.Attributes {
		out["attr."+k] = v
	}
	for k, v := range n.Meta {
		out["meta."+k] = v
	}
	return out
}

// reference matches ${...}; its content is looked up as a whole.
var reference = regexp.MustCompile(`\$\{[^{}]+\}`)

// Replace replaces every known ${NAME}: a variable of the environment, also as
// env["NAME"], or a property of the node: node.*, attr.*, meta.*. Unknown references
// are kept, and replacements are not replaced again.
func (e *Env) Replace(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return reference.ReplaceAllStringFunc(s, func(m string) string {
		if v, ok := e.lookup(strings.TrimSpace(m[2 : len(m)-1])); ok {
			return v
		}
		return m
	})
}

func (e *Env) lookup(name string) (string, bool) {
	if v, ok := e.facts[name]; ok {
		return v, true
	}
	if object, key, ok := index(name); ok {
		if object == "env" {
			return e.variable(key)
		}
		v, ok := e.facts[object+"."+key]
		return v, ok
	}
	if key, ok := strings.CutPrefix(name, "env."); ok {
		return e.variable(key)
	}
	return e.variable(name)
}

func (e *Env) variable(name string) (string, bool) {
	if v, ok := e.secret[name]; ok {
		return v, true
	}
	v, ok := e.vars[name]
	return v, ok
}

// index parses OBJECT["KEY"].
func index(name string) (object, key string, ok bool) {
	object, rest, ok := strings.Cut(name, "[")
	if !ok || !strings.HasSuffix(rest, "]") {
		return "", "", false
	}
	return object, strings.Trim(rest[:len(rest)-1], `"' `), true
}

// ReplaceAny applies Replace to every string of a JSON-like value, including keys of
// maps, and returns a new value.
func (e *Env) ReplaceAny(v any) any {
	switch v := v.(type) {
	case string:
		return e.Replace(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = e.ReplaceAny(v[i])
		}
		return out
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = e.Replace(v[i])
		}
		return out
	case []map[string]any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = e.ReplaceAny(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[e.Replace(k)] = e.ReplaceAny(x)
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(v))
		for k, x := range v {
			out[e.Replace(k)] = e.Replace(x)
		}
		return out
	}
	return v
}
