// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package hclspec supports the config blocks of plugins built for Nomad, which
// describe them with a serialised hcldec specification and read them as MessagePack.
// It owns the conversion of a block's value to MessagePack, and of a specification to
// our schema. core/pluginhost/driver imports it.
package hclspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Encode decodes a config block with the plugin's specification and returns the
// MessagePack for the plugin. InvalidArgument: the block does not match the
// specification.
func Encode(spec *pb.Spec, config map[string]any) ([]byte, error) {
	dec, err := decoder(spec, 0)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(prepare(spec, config))
	if err != nil {
		return nil, errdefs.InvalidArgumentf("encode the config: %w", err)
	}
	file, diags := hcljson.Parse(body, "config")
	if diags.HasErrors() {
		return nil, problems(diags)
	}
	value, diags := hcldec.Decode(file.Body, dec, nil)
	if diags.HasErrors() {
		return nil, problems(diags)
	}
	out, err := ctymsgpack.Marshal(value, value.Type())
	if err != nil {
		return nil, errdefs.Internalf("encode the config as MessagePack: %w", err)
	}
	return out, nil
}

// EncodeJSON is Encode for a block that is given as JSON; the specification may
// be empty, for a plugin that has no configuration.
func EncodeJSON(spec *pb.Spec, config []byte) ([]byte, error) {
	var block map[string]any
	if len(config) > 0 {
		if err := json.Unmarshal(config, &block); err != nil {
			return nil, errdefs.InvalidArgumentf("decode the config: %w", err)
		}
	}
	if spec.GetBlock() == nil {
		return []byte{0x80}, nil // an empty map
	}
	return Encode(spec, block)
}

// problems drops the positions, which refer to generated JSON.
func problems(diags hcl.Diagnostics) error {
	var out []string
	for _, d := range diags.Errs() {
		if diag, ok := d.(*hcl.Diagnostic); ok {
			out = append(out, strings.TrimSpace(diag.Summary+": "+diag.Detail))
		}
	}
	return errdefs.InvalidArgumentf("config: %s", strings.Join(out, "; "))
}

// maxDepth bounds how deep a plugin's specification may nest.
const maxDepth = 32

func decoder(s *pb.Spec, depth int) (hcldec.Spec, error) {
	if depth > maxDepth {
		return nil, errdefs.FailedPreconditionf("the plugin's specification nests deeper than %d", maxDepth)
	}
	nested := func(s *pb.Spec) (hcldec.Spec, error) { return decoder(s, depth+1) }
	switch b := s.GetBlock().(type) {
	case *pb.Spec_Object:
		out := hcldec.ObjectSpec{}
		for name, field := range b.Object.GetAttributes() {
			sub, err := nested(field)
			if err != nil {
				return nil, err
			}
			out[name] = sub
		}
		return out, nil
	case *pb.Spec_Array:
		out := hcldec.TupleSpec{}
		for _, field := range b.Array.GetValues() {
			sub, err := nested(field)
			if err != nil {
				return nil, err
			}
			out = append(out, sub)
		}
		return out, nil
	case *pb.Spec_Attr:
		typ, err := parseType(b.Attr.GetType())
		return &hcldec.AttrSpec{Name: b.Attr.GetName(), Type: typ, Required: b.Attr.GetRequired()}, err
	case *pb.Spec_BlockAttrs:
		typ, err := parseType(b.BlockAttrs.GetType())
		return &hcldec.BlockAttrsSpec{TypeName: b.BlockAttrs.GetName(), ElementType: typ, Required: b.BlockAttrs.GetRequired()}, err
	case *pb.Spec_BlockValue:
		sub, err := nested(b.BlockValue.GetNested())
		return &hcldec.BlockSpec{TypeName: b.BlockValue.GetName(), Nested: sub, Required: b.BlockValue.GetRequired()}, err
	case *pb.Spec_BlockList:
		sub, err := nested(b.BlockList.GetNested())
		return &hcldec.BlockListSpec{
			TypeName: b.BlockList.GetName(), Nested: sub, MinItems: int(b.BlockList.GetMinItems()), MaxItems: int(b.BlockList.GetMaxItems()),
		}, err
	case *pb.Spec_BlockSet:
		sub, err := nested(b.BlockSet.GetNested())
		return &hcldec.BlockSetSpec{
			TypeName: b.BlockSet.GetName(), Nested: sub, MinItems: int(b.BlockSet.GetMinItems()), MaxItems: int(b.BlockSet.GetMaxItems()),
		}, err
	case *pb.Spec_BlockMap:
		sub, err := nested(b.BlockMap.GetNested())
		return &hcldec.BlockMapSpec{TypeName: b.BlockMap.GetName(), LabelNames: b.BlockMap.GetLabels(), Nested: sub}, err
	case *pb.Spec_Default:
		primary, err := nested(b.Default.GetPrimary())
		if err != nil {
			return nil, err
		}
		fallback, err := nested(b.Default.GetDefault())
		return &hcldec.DefaultSpec{Primary: primary, Default: fallback}, err
	case *pb.Spec_Literal:
		value, err := parseLiteral(b.Literal.GetValue())
		return &hcldec.LiteralSpec{Value: value}, err
	}
	return nil, errdefs.FailedPreconditionf("the plugin's specification holds a part of no known form")
}

func parseType(expr string) (cty.Type, error) {
	e, diags := hclsyntax.ParseExpression([]byte(expr), "type", hcl.InitialPos)
	if !diags.HasErrors() {
		var typ cty.Type
		if typ, diags = typeexpr.TypeConstraint(e); !diags.HasErrors() {
			return typ, nil
		}
	}
	return cty.NilType, errdefs.FailedPreconditionf("the plugin's specification names a type %q that cannot be read: %w", expr, diags)
}

func parseLiteral(expr string) (cty.Value, error) {
	e, diags := hclsyntax.ParseExpression([]byte(expr), "literal", hcl.InitialPos)
	if !diags.HasErrors() {
		var v cty.Value
		if v, diags = e.Value(nil); !diags.HasErrors() {
			return v, nil
		}
	}
	return cty.NilVal, errdefs.FailedPreconditionf("the plugin's specification has a default %q that cannot be read: %w", expr, diags)
}

// prepare converts a block's value to the form of HCL's JSON syntax: nulls are left
// out, and an attribute that is a map gets a map even if the job file has a block.
// Strings are not templates there, because nothing evaluates them.
func prepare(s *pb.Spec, config map[string]any) map[string]any {
	kinds := map[string]*pb.Spec{}
	for _, field := range fields(s) {
		inner := primary(field)
		kinds[inputName(inner)] = inner
	}
	out := make(map[string]any, len(config))
	for name, v := range config {
		if v == nil {
			continue
		}
		out[name] = prepareField(kinds[name], v)
	}
	return out
}

func prepareField(s *pb.Spec, v any) any {
	nested := s.GetBlockValue().GetNested()
	if nested == nil {
		nested = s.GetBlockList().GetNested()
	}
	if nested == nil {
		nested = s.GetBlockSet().GetNested()
	}
	if nested != nil {
		return eachBlock(v, func(m map[string]any) any { return prepare(nested, m) })
	}
	if attr := s.GetAttr(); attr != nil {
		list, isList := v.([]any)
		_, isMap := v.(map[string]any)
		switch {
		case isList && len(list) == 1 && strings.HasPrefix(attr.GetType(), "map("):
			if m, ok := list[0].(map[string]any); ok {
				return m
			}
		case isMap && strings.HasPrefix(attr.GetType(), "list(map("):
			return []any{v}
		}
	}
	return v
}

// eachBlock applies f to one block or to each of several.
func eachBlock(v any, f func(map[string]any) any) any {
	switch v := v.(type) {
	case map[string]any:
		return f(v)
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			if m, ok := x.(map[string]any); ok {
				out = append(out, f(m))
			} else {
				out = append(out, x)
			}
		}
		return out
	case []map[string]any:
		out := make([]any, 0, len(v))
		for _, m := range v {
			out = append(out, f(m))
		}
		return out
	}
	return v
}

// fields returns the parts of a specification that one block sets: the parts of an object
// or tuple, at any depth, and fallbacks for parts that are not set, such as an older name.
// Their order is deterministic.
func fields(s *pb.Spec) []*pb.Spec {
	switch b := s.GetBlock().(type) {
	case *pb.Spec_Object:
		var out []*pb.Spec
		attrs := b.Object.GetAttributes()
		for _, key := range slices.Sorted(maps.Keys(attrs)) {
			out = append(out, fields(attrs[key])...)
		}
		return out
	case *pb.Spec_Array:
		var out []*pb.Spec
		for _, v := range b.Array.GetValues() {
			out = append(out, fields(v)...)
		}
		return out
	case *pb.Spec_Default:
		if instead := fields(b.Default.GetDefault()); len(instead) > 0 {
			return append(fields(b.Default.GetPrimary()), instead...)
		}
		if inner := primary(s); inputName(inner) == "" {
			return fields(inner)
		}
		return []*pb.Spec{s}
	case *pb.Spec_Literal, nil:
		return nil
	}
	return []*pb.Spec{s}
}

// primary strips defaults off.
func primary(s *pb.Spec) *pb.Spec {
	for s.GetDefault() != nil {
		s = s.GetDefault().GetPrimary()
	}
	return s
}

// inputName returns the name of the field in a block; "" if a block cannot set it.
func inputName(s *pb.Spec) string {
	switch b := s.GetBlock().(type) {
	case *pb.Spec_Attr:
		return b.Attr.GetName()
	case *pb.Spec_BlockAttrs:
		return b.BlockAttrs.GetName()
	case *pb.Spec_BlockValue:
		return b.BlockValue.GetName()
	case *pb.Spec_BlockList:
		return b.BlockList.GetName()
	case *pb.Spec_BlockSet:
		return b.BlockSet.GetName()
	case *pb.Spec_BlockMap:
		return b.BlockMap.GetName()
	}
	return ""
}

// Check reports whether a specification can be used at all.
func Check(s *pb.Spec) error {
	_, err := decoder(s, 0)
	if err != nil {
		return fmt.Errorf("read the plugin's config specification: %w", err)
	}
	return nil
}
