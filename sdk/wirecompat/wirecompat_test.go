// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package wirecompat_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	devicev1 "github.com/drover-project/drover/sdk/internal/pb/device/v1"
	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"
	networkv1 "github.com/drover-project/drover/sdk/internal/pb/network/v1"
	pluginv1 "github.com/drover-project/drover/sdk/internal/pb/plugin/v1"
	registryv1 "github.com/drover-project/drover/sdk/internal/pb/registry/v1"
	statsv1 "github.com/drover-project/drover/sdk/internal/pb/stats/v1"
	"github.com/drover-project/drover/sdk/wirecompat"
)

var rewrite = flag.Bool("rewrite", false, "take additions into sdk/proto/released; breaks are still refused")

const releasedDir = "../proto/released"

// released are the contracts that plugins out there speak. A draft is not in it.
var released = []protoreflect.FileDescriptor{
	pluginv1.File_plugin_v1_plugin_proto, driverv1.File_driver_v1_driver_proto,
	devicev1.File_device_v1_device_proto, statsv1.File_stats_v1_stats_proto, networkv1.File_network_v1_network_proto,
	registryv1.File_registry_v1_registry_proto,
}

func golden(f protoreflect.FileDescriptor) string {
	return filepath.Join(releasedDir, strings.ReplaceAll(strings.TrimSuffix(f.Path(), ".proto"), "/", "_")+".txtpb")
}

func read(t *testing.T, path string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write a new contract's released form with: go test ./sdk/wirecompat -rewrite", err)
	}
	out := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal(body, out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// spaces are what prototext puts between a name and its value: one or two, so that
// nobody depends on it.
var spaces = regexp.MustCompile(`(?m)^(\s*[\w.]+:?) +`)

func TestReleasedContractsAreKept(t *testing.T) {
	for _, f := range released {
		t.Run(f.Path(), func(t *testing.T) {
			current := protodesc.ToFileDescriptorProto(f)
			if _, err := os.Stat(golden(f)); err == nil || !*rewrite {
				for _, b := range wirecompat.Breaks(read(t, golden(f)), current) {
					t.Errorf("%s; plugins out there speak the released form: make the change an addition, or a new version of the contract", b)
				}
			}
			if t.Failed() || !*rewrite {
				return
			}
			text, err := prototext.MarshalOptions{Multiline: true}.Marshal(current)
			if err != nil {
				t.Fatal(err)
			}
			head := "# Copyright (c) The Drover Authors\n# SPDX-License-Identifier: MPL-2.0\n# The released form of " + f.Path() + ". Written by: go test ./sdk/wirecompat -rewrite\n"
			if err := os.WriteFile(golden(f), append([]byte(head), spaces.ReplaceAll(text, []byte("$1 "))...), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// contract is a released form to break.
const contract = `
name: "x.proto" package: "x" syntax: "proto3"
message_type {
  name: "Task"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "id" }
  field { name: "tags" number: 2 label: LABEL_REPEATED type: TYPE_STRING json_name: "tags" }
  field { name: "limit" number: 3 label: LABEL_OPTIONAL type: TYPE_INT64 json_name: "limit" proto3_optional: true oneof_index: 1 }
  field { name: "int" number: 4 label: LABEL_OPTIONAL type: TYPE_INT64 json_name: "int" oneof_index: 0 }
  field { name: "usage" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".x.Usage" json_name: "usage" }
  oneof_decl { name: "value" } oneof_decl { name: "_limit" }
  reserved_range { start: 8 end: 10 } reserved_name: "old"
}
message_type { name: "Usage" enum_type { name: "Unit" value { name: "NONE" number: 0 } value { name: "BYTES" number: 1 } } }
service {
  name: "S"
  method { name: "Start" input_type: ".x.Task" output_type: ".x.Usage" }
  method { name: "Watch" input_type: ".x.Task" output_type: ".x.Usage" server_streaming: true }
}
`

func TestEachBreakIsSeenAndSaid(t *testing.T) {
	was := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(contract), was); err != nil {
		t.Fatal(err)
	}
	type file = *descriptorpb.FileDescriptorProto
	task := func(f file) *descriptorpb.DescriptorProto { return f.MessageType[0] }
	for name, c := range map[string]struct {
		change func(file)
		says   string
	}{
		"a package renamed":          {func(f file) { f.Package = proto.String("y") }, "the package was x and is y"},
		"a message removed":          {func(f file) { f.MessageType = f.MessageType[:1] }, "message Usage is gone"},
		"a field removed":            {func(f file) { task(f).Field = task(f).Field[1:] }, "field Task.id (number 1) is gone"},
		"a field renumbered":         {func(f file) { task(f).Field[0].Number = proto.Int32(7) }, "field Task.id had number 1 and has 7"},
		"a field renamed":            {func(f file) { task(f).Field[0].Name = proto.String("key") }, "was id and is key"},
		"a field's JSON name":        {func(f file) { task(f).Field[0].JsonName = proto.String("ID") }, "the JSON name of field Task.id was id and is ID"},
		"a field retyped":            {func(f file) { task(f).Field[3].Type = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE.Enum() }, "the type of field Task.int was TYPE_INT64 and is TYPE_DOUBLE"},
		"a field of another message": {func(f file) { task(f).Field[4].TypeName = proto.String(".x.Task") }, "was .x.Usage and is .x.Task"},
		"a field made singular":      {func(f file) { task(f).Field[1].Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum() }, "whether it is repeated, of field Task.tags"},
		"a field without presence":   {func(f file) { task(f).Field[2].Proto3Optional, task(f).Field[2].OneofIndex = nil, nil }, "whether it can be told from zero, of field Task.limit"},
		"a field out of its oneof":   {func(f file) { task(f).Field[3].OneofIndex = nil }, "the oneof of field Task.int was value and is none"},
		"reserved numbers freed":     {func(f file) { task(f).ReservedRange = nil }, "no longer reserves the numbers 8 to 9"},
		"a reserved name freed":      {func(f file) { task(f).ReservedName = nil }, `no longer reserves the name "old"`},
		"an enum removed":            {func(f file) { f.MessageType[1].EnumType = nil }, "enum Usage.Unit is gone"},
		"an enum value removed":      {func(f file) { e := f.MessageType[1].EnumType[0]; e.Value = e.Value[:1] }, "value BYTES (1) of enum Usage.Unit is gone"},
		"an enum value renumbered":   {func(f file) { f.MessageType[1].EnumType[0].Value[1].Number = proto.Int32(2) }, "value BYTES of enum Usage.Unit had number 1 and has 2"},
		"a service removed":          {func(f file) { f.Service = nil }, "service S is gone"},
		"a method removed":           {func(f file) { f.Service[0].Method = f.Service[0].Method[1:] }, "method S.Start is gone"},
		"a method's request":         {func(f file) { f.Service[0].Method[0].InputType = proto.String(".x.Usage") }, "the request of method S.Start was .x.Task and is .x.Usage"},
		"a method's response":        {func(f file) { f.Service[0].Method[0].OutputType = proto.String(".x.Task") }, "the response of method S.Start"},
		"a stream ended":             {func(f file) { f.Service[0].Method[1].ServerStreaming = nil }, "the streaming of responses of method S.Watch was true and is false"},
	} {
		t.Run(name, func(t *testing.T) {
			is := proto.Clone(was).(file)
			c.change(is)
			breaks := wirecompat.Breaks(was, is)
			if len(breaks) == 0 || !strings.Contains(strings.Join(breaks, "\n"), c.says) {
				t.Errorf("said %q, want %q", breaks, c.says)
			}
		})
	}
}

func TestAdditionsPass(t *testing.T) {
	was := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(contract), was); err != nil {
		t.Fatal(err)
	}
	is := proto.Clone(was).(*descriptorpb.FileDescriptorProto)
	more := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(`
message_type {
  field { name: "more" number: 20 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "more" }
  field { name: "text" number: 21 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "text" oneof_index: 0 }
  reserved_range { start: 30 end: 40 }
}
message_type { name: "New" }
service { method { name: "Added" input_type: ".x.New" output_type: ".x.New" } }
enum_type { name: "Another" value { name: "ZERO" number: 0 } }
`), more); err != nil {
		t.Fatal(err)
	}
	proto.Merge(is.MessageType[0], more.MessageType[0])
	is.MessageType = append(is.MessageType, more.MessageType[1])
	proto.Merge(is.Service[0], more.Service[0])
	is.EnumType = more.EnumType
	if breaks := wirecompat.Breaks(was, is); len(breaks) > 0 {
		t.Errorf("additions are said to break: %q", breaks)
	}
}
