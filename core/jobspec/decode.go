// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drover-project/drover/core/nearest"
)

// decoder decodes blocks into draft structs. The `hcl` tags of the draft types are the
// whole schema: "name" is an attribute, "name,block" a block (for maps also an
// attribute) and "name,label" the label of the block.
type decoder struct {
	diags  hcl.Diagnostics
	blocks int // decoded so far, see maxBlocks
	budget *budget
}

// field is a parsed `hcl` tag.
type field struct {
	name  string
	kind  string // "attr", "block" or "label"
	index int
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("hcl")
		name, kind, _ := strings.Cut(tag, ",")
		if tag == "" || name == "-" {
			continue
		}
		if kind == "" {
			kind = "attr"
		}
		out = append(out, field{name, kind, i})
	}
	return out
}

func (d *decoder) errorf(r hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &r,
	})
}

// decodeBlock decodes b into the struct v: labels, attributes, then blocks.
func (d *decoder) decodeBlock(b *block, v reflect.Value) {
	var fields []field
	if v.Kind() == reflect.Struct {
		fields = fieldsOf(v.Type())
	}
	d.decodeLabel(b, v, fields)
	d.decodeBody(b, v, fields)
	remember(b, v)
}

func (d *decoder) decodeLabel(b *block, v reflect.Value, fields []field) {
	want := ""
	for _, f := range fields {
		if f.kind != "label" {
			continue
		}
		want = f.name
		if want == "" {
			want = "name"
		}
		if len(b.labels) > 0 {
			setString(v.Field(f.index), b.labels[0])
		}
	}
	n := 0
	if want != "" {
		n = 1
	}
	switch {
	case len(b.labels) < n:
		d.errorf(b.rng, "Missing "+want+" for "+b.name, "All %s blocks must have 1 labels (%s).", b.name, want)
	case len(b.labels) > n:
		d.errorf(b.rng, "Extraneous label for "+b.name, "No more than %d labels are expected for %s blocks.", n, b.name)
	}
}

func (d *decoder) decodeBody(b *block, v reflect.Value, fields []field) {
	known := map[string]field{}
	for _, f := range fields {
		if f.kind != "label" {
			known[f.name] = f
		}
	}
	for _, a := range sortedAttributes(b.body) {
		f, ok := known[a.Name]
		switch {
		case !ok && d.decodeSugar(a, v, b.ctx):
		case !ok:
			d.errorf(a.NameRange, "Unsupported argument", "An argument named %q is not expected here.%s", a.Name, suggestion(a.Name, known))
		case f.kind == "block" && v.Type().Field(f.index).Type.Kind() != reflect.Map:
			d.errorf(a.NameRange, "Unsupported argument", "An argument named %q is not expected here. Did you mean to define a block of type %q?", a.Name, a.Name)
		default:
			d.decodeExpr(a.Expr, b.ctx, v.Field(f.index))
		}
	}
	for _, nested := range d.expand(b.body, b.ctx) {
		f, ok := known[nested.name]
		switch {
		case !ok:
			d.errorf(nested.rng, "Unsupported block type", "Blocks of type %q are not expected here.%s", nested.name, suggestion(nested.name, known))
		case f.kind != "block":
			d.errorf(nested.rng, "Unsupported block type", "Blocks of type %q are not expected here. Did you mean to define argument %q? If so, use the equals sign to assign it a value.", nested.name, nested.name)
		default:
			d.decodeNested(nested, v.Field(f.index))
		}
	}
}

// decodeNested decodes a block into a field: a struct, a slice, a map by label, or a
// map of free content.
func (d *decoder) decodeNested(b *block, dst reflect.Value) {
	t := dst.Type()
	switch {
	case t.Kind() == reflect.Map && isStructPointer(t.Elem()):
		e := reflect.New(t.Elem().Elem())
		d.decodeBlock(b, e.Elem())
		if len(b.labels) > 0 {
			putMap(dst, b.labels[0], e)
		}
	case t.Kind() == reflect.Map:
		d.decodeMap(b, dst)
	case t.Kind() == reflect.Pointer:
		if !dst.IsNil() {
			d.errorf(b.rng, "Duplicate "+b.name+" block", "Only one %s block is allowed here.", b.name)
			return
		}
		dst.Set(reflect.New(t.Elem()))
		d.decodeBlock(b, dst.Elem())
	case t.Elem().Kind() == reflect.Pointer:
		e := reflect.New(t.Elem().Elem())
		if p, ok := e.Interface().(*ScalingPolicy); ok { // of a task: that of a group has no label
			b = d.scalingLabel(b, p)
		}
		d.decodeBlock(b, e.Elem())
		dst.Set(reflect.Append(dst, e))
	default:
		e := reflect.New(t.Elem()).Elem()
		d.decodeBlock(b, e)
		dst.Set(reflect.Append(dst, e))
	}
}

// decodeMap decodes a block with arbitrary names, such as env, meta or config. Several
// such blocks are merged.
func (d *decoder) decodeMap(b *block, dst reflect.Value) {
	if len(b.labels) > 0 {
		d.errorf(b.rng, "Extraneous label for "+b.name, "No labels are expected for %s blocks.", b.name)
		return
	}
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	if dst.Type().Elem().Kind() == reflect.Interface {
		for k, v := range d.freeBody(b) {
			putMap(dst, k, reflect.ValueOf(&v).Elem())
		}
		return
	}
	for _, nested := range b.body.Blocks {
		d.errorf(nested.TypeRange, "Unexpected block", "Blocks are not allowed in %s; write NAME = VALUE.", b.name)
	}
	for _, a := range sortedAttributes(b.body) {
		e := reflect.New(dst.Type().Elem()).Elem()
		d.decodeExpr(a.Expr, b.ctx, e)
		putMap(dst, a.Name, e)
	}
}

// freeBody decodes a body without schema: blocks become lists of maps, with one level
// of maps per label.
func (d *decoder) freeBody(b *block) map[string]any {
	out := map[string]any{}
	for _, a := range sortedAttributes(b.body) {
		var v any
		d.decodeExpr(a.Expr, b.ctx, reflect.ValueOf(&v).Elem())
		out[a.Name] = v
	}
	for _, nested := range d.expand(b.body, b.ctx) {
		var v any = d.freeBody(nested)
		for i := len(nested.labels) - 1; i >= 0; i-- {
			v = map[string]any{nested.labels[i]: []any{v}}
		}
		list, _ := out[nested.name].([]any)
		out[nested.name] = append(list, v)
	}
	return out
}

func putMap(dst reflect.Value, key string, e reflect.Value) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	dst.SetMapIndex(reflect.ValueOf(key), e)
}

func isStructPointer(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func setString(dst reflect.Value, s string) {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	dst.SetString(s)
}

// sortedAttributes returns the attributes in source order.
func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(body.Attributes))
	for _, a := range body.Attributes {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].SrcRange.Start.Byte < out[j].SrcRange.Start.Byte })
	return out
}

// suggestion proposes the known name that a misspelt one probably means.
func suggestion(name string, known map[string]field) string {
	if meant := nearest.Of(name, slices.Collect(maps.Keys(known))); meant != "" {
		return fmt.Sprintf(" Did you mean %q?", meant)
	}
	return ""
}
