// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// shortForms are the arguments of constraint and affinity blocks that name the
// operator: version = ">= 1" is operator = "version" and value = ">= 1".
var shortForms = map[string]bool{
	"version": true, "semver": true, "regexp": true, "distinct_property": true,
	"set_contains": true, "set_contains_all": true, "set_contains_any": true,
}

// decodeSugar decodes attributes that are short for others. It reports whether a is
// one.
func (d *decoder) decodeSugar(a *hclsyntax.Attribute, v reflect.Value, ctx *hcl.EvalContext) bool {
	if !v.CanAddr() {
		return false
	}
	switch dst := v.Addr().Interface().(type) {
	case *Constraint:
		return d.constraintSugar(a, ctx, &dst.LTarget, &dst.RTarget, &dst.Operand)
	case *Affinity:
		return a.Name != "distinct_property" && a.Name != "distinct_hosts" &&
			d.constraintSugar(a, ctx, &dst.LTarget, &dst.RTarget, &dst.Operand)
	}
	return false
}

func (d *decoder) constraintSugar(a *hclsyntax.Attribute, ctx *hcl.EvalContext, left, right, operand *string) bool {
	switch {
	case a.Name == "distinct_hosts":
		var on bool
		d.decodeExpr(a.Expr, ctx, reflect.ValueOf(&on).Elem())
		*operand, *right = "distinct_hosts", map[bool]string{true: "true", false: "false"}[on]
	case a.Name == "distinct_property":
		*operand = a.Name
		d.decodeExpr(a.Expr, ctx, reflect.ValueOf(left).Elem())
	case shortForms[a.Name]:
		*operand = a.Name
		d.decodeExpr(a.Expr, ctx, reflect.ValueOf(right).Elem())
	default:
		return false
	}
	return true
}

// verticalTypes are the labels of scaling blocks of tasks, which are short for types.
var verticalTypes = map[string]string{"cpu": "vertical_cpu", "mem": "vertical_mem"}

// scalingLabel sets the type of a task's scaling policy by the label of its block, and
// returns the block without it. A type that the block itself names wins, and needs no
// label.
func (d *decoder) scalingLabel(b *block, p *ScalingPolicy) *block {
	if len(b.labels) == 0 {
		if b.body.Attributes["type"] == nil {
			d.errorf(b.rng, "Missing scaling label", `A scaling block of a task is labelled "cpu" or "mem".`)
		}
		return b
	}
	p.Type = verticalTypes[b.labels[0]]
	if p.Type == "" {
		d.errorf(b.rng, "Invalid scaling label", `A scaling block of a task is labelled "cpu" or "mem", not %q.`, b.labels[0])
	}
	rest := *b
	rest.labels = b.labels[1:]
	return &rest
}
