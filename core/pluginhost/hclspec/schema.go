// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hclspec

import (
	"encoding/json"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	"github.com/drover-project/drover/sdk/schema"
)

// Schema converts a specification to a schema, as far as possible: Encode still checks the
// rules that a schema cannot express.
func Schema(s *pb.Spec) schema.Schema {
	var out schema.Schema
	seen := map[string]bool{}
	for _, field := range fields(s) {
		if a := attribute(field); !seen[a.Name] {
			seen[a.Name] = true
			out.Attributes = append(out.Attributes, a)
		}
	}
	return out
}

func attribute(s *pb.Spec) schema.Attribute {
	inner := primary(s)
	a := schema.Attribute{Name: inputName(inner), Type: schema.Any}
	switch b := inner.GetBlock().(type) {
	case *pb.Spec_Attr:
		a.Type, a.Required = schemaType(b.Attr.GetType()), b.Attr.GetRequired()
		a.Default = fallback(s)
		a.Required = a.Required && a.Default == nil
	case *pb.Spec_BlockValue:
		nest(&a, schema.Block, b.BlockValue.GetNested())
		a.Required = b.BlockValue.GetRequired() && s == inner
	case *pb.Spec_BlockList:
		nest(&a, schema.BlockList, b.BlockList.GetNested())
	case *pb.Spec_BlockSet:
		nest(&a, schema.BlockList, b.BlockSet.GetNested())
	}
	return a
}

// nest describes a nested block where the specification is one of an object.
func nest(a *schema.Attribute, t schema.Type, s *pb.Spec) {
	if s.GetObject() != nil {
		inner := Schema(s)
		a.Type, a.Block = t, &inner
	}
}

func schemaType(expr string) schema.Type {
	switch t := schema.Type(expr); t {
	case schema.String, schema.Number, schema.Bool, schema.ListString, schema.ListNumber, schema.MapString, schema.ListMapString, schema.ListMapNumber:
		return t
	}
	return schema.Any
}

// fallback is the literal default of an attribute as a JSON value, or nil.
func fallback(s *pb.Spec) any {
	text := s.GetDefault().GetDefault().GetLiteral().GetValue()
	if text == "" {
		return nil
	}
	v, err := parseLiteral(text)
	if err != nil || v.IsNull() {
		return nil // Check reports this when the plugin is attached
	}
	body, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(body, &out) != nil {
		return nil
	}
	return out
}
