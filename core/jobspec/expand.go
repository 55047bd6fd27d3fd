// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// block is a block with the scope in which its expressions are evaluated.
type block struct {
	name   string
	labels []string
	body   *hclsyntax.Body
	ctx    *hcl.EvalContext
	rng    hcl.Range
}

// expand returns the blocks of a body in order. Dynamic blocks are replaced by the
// blocks that they generate.
func (d *decoder) expand(body *hclsyntax.Body, ctx *hcl.EvalContext) []*block {
	var out []*block
	for _, b := range body.Blocks {
		if b.Type == "dynamic" {
			out = append(out, d.expandDynamic(b, ctx)...)
			continue
		}
		out = append(out, &block{b.Type, b.Labels, b.Body, ctx, b.DefRange()})
	}
	d.blocks += len(out)
	if d.blocks > maxBlocks {
		if d.blocks-len(out) <= maxBlocks {
			d.errorf(body.MissingItemRange(), "Too many blocks", "A job may have at most %d blocks after the expansion of dynamic blocks.", maxBlocks)
		}
		return nil
	}
	return out
}

func (d *decoder) expandDynamic(b *hclsyntax.Block, ctx *hcl.EvalContext) []*block {
	if len(b.Labels) != 1 {
		d.errorf(b.DefRange(), "Missing name for dynamic", `Write dynamic "BLOCK" { for_each = ... content { ... } }.`)
		return nil
	}
	forEach := b.Body.Attributes["for_each"]
	var content *hclsyntax.Block
	for _, nested := range b.Body.Blocks {
		if nested.Type == "content" {
			content = nested
		}
	}
	if forEach == nil || content == nil {
		d.errorf(b.DefRange(), "Incomplete dynamic block", "A dynamic block needs the argument for_each and a content block.")
		return nil
	}
	list, diags := forEach.Expr.Value(ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() {
		return nil
	}
	if list.IsNull() || !list.IsKnown() || !list.CanIterateElements() {
		d.errorf(forEach.Expr.Range(), "Invalid dynamic for_each value", "Cannot use a %s value in for_each. An iterable collection is required.", list.Type().FriendlyName())
		return nil
	}
	var out []*block
	for it := list.ElementIterator(); it.Next() && len(out) <= maxBlocks; {
		key, value := it.Element()
		if list.Type().IsSetType() {
			key = value
		}
		child := ctx.NewChild()
		child.Variables = map[string]cty.Value{iteratorName(b): cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
		out = append(out, &block{b.Labels[0], d.dynamicLabels(b, child), content.Body, child, b.DefRange()})
	}
	return out
}

func (d *decoder) dynamicLabels(b *hclsyntax.Block, ctx *hcl.EvalContext) []string {
	a := b.Body.Attributes["labels"]
	if a == nil {
		return nil
	}
	v, diags := a.Expr.Value(ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() {
		return nil
	}
	v, err := convert.Convert(v, cty.List(cty.String))
	if err != nil || v.IsNull() || !v.IsWhollyKnown() {
		d.errorf(a.Expr.Range(), "Invalid dynamic block labels", "labels must be a list of strings.")
		return nil
	}
	var out []string
	for _, e := range v.AsValueSlice() {
		if e.IsNull() {
			d.errorf(a.Expr.Range(), "Invalid dynamic block labels", "A label must not be null.")
			return nil
		}
		out = append(out, e.AsString())
	}
	return out
}

// iteratorName returns the name under which the content of a dynamic block refers to
// the current element: its iterator argument, or else its block type.
func iteratorName(b *hclsyntax.Block) string {
	if a := b.Body.Attributes["iterator"]; a != nil {
		if name := hcl.ExprAsKeyword(a.Expr); name != "" {
			return name
		}
	}
	if len(b.Labels) > 0 {
		return b.Labels[0]
	}
	return ""
}
