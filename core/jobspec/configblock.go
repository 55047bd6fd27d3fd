// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ParseConfigBlock parses the contents of a config block, of a task or of an agent's plugin
// block, from a separate file. variables are the values of ${NAME} in it; used reports
// which of them it contains. It fails as ParseHCL does.
func ParseConfigBlock(src []byte, filename string, variables map[string]string) (config map[string]any, used []string, err error) {
	body, diags := parseBody(src, filename)
	if diags.HasErrors() {
		return nil, nil, parseError(diags, src, filename)
	}
	names := slices.Sorted(maps.Keys(variables))
	keep := &runtimeWalker{src: src, scope: append([]string{"var", "local"}, names...)}
	if diags := hclsyntax.Walk(body, keep); diags.HasErrors() {
		return nil, nil, parseError(diags, src, filename)
	}
	ctx := &hcl.EvalContext{Functions: functions(newBudget(context.Background()), false, ""), Variables: map[string]cty.Value{}}
	for name, value := range variables {
		ctx.Variables[name] = cty.StringVal(value)
	}
	d := &decoder{}
	config = d.freeBody(&block{name: "config", body: body, ctx: ctx, rng: startOf(filename)})
	return config, mentioned(body, names), parseError(d.diags, src, filename)
}

// mentioned returns the elements of names that the body uses as variables.
func mentioned(body *hclsyntax.Body, names []string) []string {
	found := map[string]bool{}
	// The walk reports no errors: decoding has already reported them.
	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok && slices.Contains(names, e.Traversal.RootName()) {
			found[e.Traversal.RootName()] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found))
}
