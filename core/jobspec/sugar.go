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
