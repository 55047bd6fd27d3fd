// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// keepRuntimeVariables replaces references in quoted strings that only a node can
// resolve (${NOMAD_PORT_http}, ${attr.kernel.name}, ${env["X"]}) by their own source
// text, so that they reach the node unchanged. References to what the file defines
// (var, local, iterators, names in for expressions) are kept.
func keepRuntimeVariables(body *hclsyntax.Body, src []byte) hcl.Diagnostics {
	w := &runtimeWalker{src: src, scope: []string{"var", "local"}}
	return hclsyntax.Walk(body, w)
}

type runtimeWalker struct {
	src   []byte
	scope []string // names defined around the current node
}

func (w *runtimeWalker) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.Block:
		if n.Type == "dynamic" {
			w.scope = append(w.scope, iteratorName(n))
		}
	case *hclsyntax.ForExpr:
		w.scope = append(w.scope, n.KeyVar, n.ValVar)
	case *hclsyntax.TemplateExpr:
		for i, p := range n.Parts {
			n.Parts[i] = w.literal(p)
		}
	case *hclsyntax.TemplateWrapExpr:
		n.Wrapped = w.literal(n.Wrapped)
	}
	return nil
}

func (w *runtimeWalker) Exit(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.Block:
		if n.Type == "dynamic" {
			w.scope = w.scope[:len(w.scope)-1]
		}
	case *hclsyntax.ForExpr:
		w.scope = w.scope[:len(w.scope)-2]
	}
	return nil
}

// literal returns e, or its source as text if it refers to something that this file
// does not define.
func (w *runtimeWalker) literal(e hclsyntax.Expression) hclsyntax.Expression {
	t, ok := e.(*hclsyntax.ScopeTraversalExpr)
	if !ok {
		// ${NOMAD_ADDR_my-task} parses as a subtraction of two names.
		if !w.isDashedName(e) {
			return e
		}
	} else if w.defined(t.Traversal.RootName()) {
		return e
	}
	r := e.Range()
	return &hclsyntax.LiteralValueExpr{
		Val:      cty.StringVal("${" + string(r.SliceBytes(w.src)) + "}"),
		SrcRange: r,
	}
}

func (w *runtimeWalker) defined(name string) bool {
	for _, s := range w.scope {
		if s == name {
			return true
		}
	}
	return false
}

// isDashedName reports whether e consists only of runtime names joined by minus signs.
func (w *runtimeWalker) isDashedName(e hclsyntax.Expression) bool {
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return !w.defined(e.Traversal.RootName())
	case *hclsyntax.BinaryOpExpr:
		return e.Op == hclsyntax.OpSubtract && w.isDashedName(e.LHS) && w.isDashedName(e.RHS)
	}
	return false
}
