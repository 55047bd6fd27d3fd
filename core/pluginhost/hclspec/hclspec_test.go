// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hclspec_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/pluginhost/hclspec"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	"github.com/drover-project/drover/sdk/errdefs"
)

func attr(name, typ string, required bool) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Attr{Attr: &pb.Attr{Name: name, Type: typ, Required: required}}}
}

func object(fields map[string]*pb.Spec) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Object{Object: &pb.Object{Attributes: fields}}}
}

func orElse(s *pb.Spec, literal string) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Default{Default: &pb.Default{
		Primary: s, Default: &pb.Spec{Block: &pb.Spec_Literal{Literal: &pb.Literal{Value: literal}}},
	}}}
}

func spec() *pb.Spec {
	return object(map[string]*pb.Spec{
		"image":  attr("image", "string", true),
		"args":   attr("args", "list(string)", false),
		"labels": attr("labels", "list(map(string))", false),
		"sysctl": attr("sysctl", "map(string)", false),
		"tty":    orElse(attr("tty", "bool", false), "true"),
		"limit":  orElse(attr("limit", "number", false), "5"),
		"log": {Block: &pb.Spec_BlockValue{BlockValue: &pb.Block{Name: "log", Nested: object(map[string]*pb.Spec{
			"driver": orElse(attr("driver", "string", false), `"nomad"`),
		})}}},
		"mount": {Block: &pb.Spec_BlockList{BlockList: &pb.BlockList{Name: "mount", Nested: object(map[string]*pb.Spec{
			"target": attr("target", "string", true),
		})}}},
		"opts": {Block: &pb.Spec_BlockAttrs{BlockAttrs: &pb.BlockAttrs{Name: "opts", Type: "string"}}},
	})
}

// decoded is what a plugin reads.
func decoded(t *testing.T, config string) map[string]any {
	t.Helper()
	var in map[string]any
	if err := json.Unmarshal([]byte(config), &in); err != nil {
		t.Fatal(err)
	}
	body, err := hclspec.Encode(spec(), in)
	if err != nil {
		t.Fatal(err)
	}
	h := &codec.MsgpackHandle{}
	h.RawToString, h.MapType = true, reflect.TypeFor[map[string]any]()
	var out map[string]any
	if err := codec.NewDecoderBytes(body, h).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestABlockIsEncodedAsTheSpecificationSays(t *testing.T) {
	out := decoded(t, `{"image":"busybox","args":["-c","echo ${HOME} %{if}"],"labels":[{"a":"1"}],"sysctl":{"net.core":"1"},
		"log":[{}],"mount":[{"target":"/a"},{"target":"/b"}],"opts":[{"x":"y"}],"limit":7}`)
	want := map[string]any{
		"image": "busybox", "args": []any{"-c", "echo ${HOME} %{if}"}, "labels": []any{map[string]any{"a": "1"}},
		"sysctl": map[string]any{"net.core": "1"}, "tty": true, "limit": int64(7), "log": map[string]any{"driver": "nomad"},
		"mount": []any{map[string]any{"target": "/a"}, map[string]any{"target": "/b"}}, "opts": map[string]any{"x": "y"},
	}
	for k, v := range want {
		if !reflect.DeepEqual(out[k], v) {
			t.Errorf("%s is %#v, want %#v", k, out[k], v)
		}
	}
}

func TestWhatIsNotSetIsNullOrItsDefault(t *testing.T) {
	out := decoded(t, `{"image":"busybox","args":null}`)
	if out["args"] != nil || out["log"] != nil || out["tty"] != true || out["limit"] != int64(5) {
		t.Fatalf("decoded %#v", out)
	}
}

func TestMapsMayComeAsBlocksAndBlocksAsMaps(t *testing.T) {
	out := decoded(t, `{"image":"b","labels":{"a":"1"},"sysctl":[{"k":"v"}],"log":{"driver":"x"}}`)
	if !reflect.DeepEqual(out["labels"], []any{map[string]any{"a": "1"}}) || !reflect.DeepEqual(out["sysctl"], map[string]any{"k": "v"}) ||
		!reflect.DeepEqual(out["log"], map[string]any{"driver": "x"}) {
		t.Fatalf("decoded %#v", out)
	}
}

func TestABlockThatDoesNotFitIsRefusedByName(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                               "image",
		`{"image":"x","bogus":1}`:          "bogus",
		`{"image":"x","args":"no list"}`:   "list of string",
		`{"image":"x","mount":[{}]}`:       "target",
		`{"image":"x","limit":"no count"}`: "number",
	} {
		var in map[string]any
		if err := json.Unmarshal([]byte(config), &in); err != nil {
			t.Fatal(err)
		}
		_, err := hclspec.Encode(spec(), in)
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an InvalidArgument that says %q", config, err, want)
		}
	}
}

func TestTheSchemaSaysWhatTheSpecificationSays(t *testing.T) {
	s := hclspec.Schema(spec())
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	full, err := s.Apply(map[string]any{"image": "x", "mount": []any{map[string]any{"target": "/a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if full["tty"] != true {
		t.Fatalf("applied %#v", full)
	}
	if err := s.Validate(map[string]any{"args": "x", "bogus": 1}); err == nil || !strings.Contains(err.Error(), "bogus") {
		t.Fatalf("a bad block: %v", err)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(`{"image":"x","labels":[{"a":"${b}"}]}`)
	f.Add(`{"image":{"a":[1,null]},"mount":[[]],"log":"x"}`)
	f.Fuzz(func(_ *testing.T, config string) {
		var in map[string]any
		if json.Unmarshal([]byte(config), &in) == nil {
			_, _ = hclspec.Encode(spec(), in) // it must not panic
		}
	})
}
