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
	return unpack(t, body)
}

func unpack(t *testing.T, body []byte) map[string]any {
	t.Helper()
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

// wide has the parts that drivers of containers use beside those of spec.
func wide() *pb.Spec {
	path := object(map[string]*pb.Spec{"path": attr("path", "string", true), "mode": orElse(attr("mode", "number", false), "5")})
	return object(map[string]*pb.Spec{
		"limits":  attr("limits", "list(number)", false),
		"names":   attr("names", "set(string)", false),
		"auth":    attr("auth", `object({user=string, ttl=number})`, false),
		"extra":   attr("extra", "any", false),
		"dir":     {Block: &pb.Spec_Default{Default: &pb.Default{Primary: attr("dir", "string", false), Default: attr("directory", "string", false)}}},
		"address": {Block: &pb.Spec_Array{Array: &pb.Array{Values: []*pb.Spec{attr("host", "string", false), orElse(attr("listen", "number", false), "80")}}}},
		"flat":    object(map[string]*pb.Spec{"inner": attr("inner", "bool", false)}),
		"volume":  {Block: &pb.Spec_BlockMap{BlockMap: &pb.BlockMap{Name: "volume", Labels: []string{"name"}, Nested: path}}},
		"port":    {Block: &pb.Spec_BlockSet{BlockSet: &pb.BlockSet{Name: "port", MaxItems: 3, Nested: attr("to", "number", true)}}},
		"version": {Block: &pb.Spec_Literal{Literal: &pb.Literal{Value: "7"}}},
		"gc": {Block: &pb.Spec_Default{Default: &pb.Default{
			Primary: &pb.Spec{Block: &pb.Spec_BlockValue{BlockValue: &pb.Block{Name: "gc", Nested: object(map[string]*pb.Spec{"containers": orElse(attr("containers", "bool", false), "true")})}}},
			Default: &pb.Spec{Block: &pb.Spec_Literal{Literal: &pb.Literal{Value: "{\n  containers = true\n}"}}},
		}}},
	})
}

func TestEveryPartOfASpecificationIsTakenAndKnownToItsSchema(t *testing.T) {
	for config, want := range map[string]map[string]any{
		`{"limits":[1,2.5],"names":["a","a"],"auth":{"user":"u","ttl":9},"extra":{"x":[1,"y"]}}`: {
			"limits": []any{int64(1), 2.5}, "names": []any{"a"}, "auth": map[string]any{"user": "u", "ttl": int64(9)}, "extra": map[string]any{"x": []any{int64(1), "y"}},
		},
		`{"directory":"/old"}`:              {"dir": "/old"},
		`{"directory":"/old","dir":"/new"}`: {"dir": "/new"},
		`{"host":"h"}`:                      {"address": []any{"h", int64(80)}},
		`{"inner":true}`:                    {"flat": map[string]any{"inner": true}},
		`{"volume":{"a":{"path":"/a"},"b":{"path":"/b","mode":null}}}`: {"volume": map[string]any{
			"a": map[string]any{"path": "/a", "mode": int64(5)}, "b": map[string]any{"path": "/b", "mode": int64(5)},
		}},
		`{"port":[{"to":1},{"to":2},{"to":1}]}`: {"port": []any{int64(1), int64(2)}},
		`{}`:                                    {"version": int64(7), "gc": map[string]any{"containers": true}, "limits": nil, "volume": map[string]any{}},
		`{"gc":[{"containers":false}]}`:         {"gc": map[string]any{"containers": false}},
	} {
		var in map[string]any
		if err := json.Unmarshal([]byte(config), &in); err != nil {
			t.Fatal(err)
		}
		s := hclspec.Schema(wide())
		applied, err := s.Apply(in)
		if err != nil {
			t.Errorf("%s: the schema refuses it: %v", config, err)
			continue
		}
		body, err := json.Marshal(applied)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := hclspec.EncodeJSON(wide(), body)
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		out := unpack(t, packed)
		for k, v := range want {
			if !reflect.DeepEqual(out[k], v) {
				t.Errorf("%s: %s is %#v, want %#v", config, k, out[k], v)
			}
		}
	}
	for config, want := range map[string]string{
		`{"port":[{"to":1},{"to":2},{"to":3},{"to":4}]}`: "port",
		`{"volume":{"a":{}}}`:                            "path",
		`{"auth":{"user":"u"}}`:                          "auth",
	} {
		if _, err := hclspec.EncodeJSON(wide(), []byte(config)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an InvalidArgument that says %q", config, err, want)
		}
	}
}
