// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package wirecompat finds changes of a contract's wire form that old plugins or old
// hosts would not understand, in its binary or JSON form. It owns the rules; the
// released forms are in sdk/proto/released. cmd/drover/protocheck and tests import it.
package wirecompat

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/descriptorpb"
)

// Breaks describes the incompatible changes between the released file and the current
// one. Additions that an old side can ignore are compatible.
func Breaks(released, current *descriptorpb.FileDescriptorProto) []string {
	c := &comparison{}
	c.same("the package", released.GetPackage(), current.GetPackage())
	c.same("the syntax", released.GetSyntax(), current.GetSyntax())
	c.services(released.GetService(), current.GetService())
	c.messages("", released.GetMessageType(), current.GetMessageType())
	c.enums("", released.GetEnumType(), current.GetEnumType())
	return c.breaks
}

type comparison struct{ breaks []string }

func (c *comparison) addf(format string, args ...any) {
	c.breaks = append(c.breaks, fmt.Sprintf(format, args...))
}

func (c *comparison) same(what string, released, current any) {
	if released != current {
		c.addf("%s was %v and is %v", what, released, current)
	}
}

func (c *comparison) services(released, current []*descriptorpb.ServiceDescriptorProto) {
	for _, was := range released {
		is := find(current, was.GetName())
		if is == nil {
			c.addf("service %s is gone", was.GetName())
			continue
		}
		for _, m := range was.GetMethod() {
			name := "method " + was.GetName() + "." + m.GetName()
			now := find(is.GetMethod(), m.GetName())
			if now == nil {
				c.addf("%s is gone; leave it and let new plugins answer it with Unimplemented", name)
				continue
			}
			c.same("the request of "+name, m.GetInputType(), now.GetInputType())
			c.same("the response of "+name, m.GetOutputType(), now.GetOutputType())
			c.same("the streaming of requests of "+name, m.GetClientStreaming(), now.GetClientStreaming())
			c.same("the streaming of responses of "+name, m.GetServerStreaming(), now.GetServerStreaming())
		}
	}
}

func (c *comparison) messages(in string, released, current []*descriptorpb.DescriptorProto) {
	for _, was := range released {
		name := in + was.GetName()
		is := find(current, was.GetName())
		if is == nil {
			c.addf("message %s is gone", name)
			continue
		}
		c.fields(name, was, is)
		for _, r := range was.GetReservedRange() {
			if !slices.ContainsFunc(is.GetReservedRange(), func(n *descriptorpb.DescriptorProto_ReservedRange) bool {
				return n.GetStart() <= r.GetStart() && n.GetEnd() >= r.GetEnd()
			}) {
				c.addf("message %s no longer reserves the numbers %d to %d: an old side gives them another meaning", name, r.GetStart(), r.GetEnd()-1)
			}
		}
		c.reservedNames("message "+name, was.GetReservedName(), is.GetReservedName())
		c.messages(name+".", was.GetNestedType(), is.GetNestedType())
		c.enums(name+".", was.GetEnumType(), is.GetEnumType())
	}
}

func (c *comparison) reservedNames(of string, released, current []string) {
	for _, name := range released {
		if !slices.Contains(current, name) {
			c.addf("%s no longer reserves the name %q", of, name)
		}
	}
}

func (c *comparison) fields(message string, released, current *descriptorpb.DescriptorProto) {
	for _, was := range released.GetField() {
		name := "field " + message + "." + was.GetName()
		i := slices.IndexFunc(current.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetNumber() == was.GetNumber() })
		if i < 0 {
			if now := find(current.GetField(), was.GetName()); now != nil {
				c.addf("%s had number %d and has %d; give a new meaning a new field", name, was.GetNumber(), now.GetNumber())
			} else {
				c.addf("%s (number %d) is gone; leave it, and say in its comment that it is no longer read", name, was.GetNumber())
			}
			continue
		}
		now := current.GetField()[i]
		c.same(fmt.Sprintf("the name of the field with number %d of %s", was.GetNumber(), message), was.GetName(), now.GetName())
		c.same("the JSON name of "+name, was.GetJsonName(), now.GetJsonName())
		c.same("the type of "+name, typeOf(was), typeOf(now))
		c.same("whether it is repeated, of "+name, was.GetLabel(), now.GetLabel())
		c.same("whether it can be told from zero, of "+name, was.GetProto3Optional(), now.GetProto3Optional())
		c.same("the oneof of "+name, oneof(released, was), oneof(current, now))
	}
}

func typeOf(f *descriptorpb.FieldDescriptorProto) string {
	if f.GetTypeName() != "" {
		return f.GetTypeName()
	}
	return f.GetType().String()
}

// oneof returns the name of the oneof that the file declares for the field. It ignores
// the synthetic oneof that the compiler creates for an optional field.
func oneof(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) string {
	if f.OneofIndex == nil || f.GetProto3Optional() {
		return "none"
	}
	return m.GetOneofDecl()[f.GetOneofIndex()].GetName()
}

func (c *comparison) enums(in string, released, current []*descriptorpb.EnumDescriptorProto) {
	for _, was := range released {
		name := in + was.GetName()
		is := find(current, was.GetName())
		if is == nil {
			c.addf("enum %s is gone", name)
			continue
		}
		for _, v := range was.GetValue() {
			now := find(is.GetValue(), v.GetName())
			switch {
			case now == nil:
				c.addf("value %s (%d) of enum %s is gone", v.GetName(), v.GetNumber(), name)
			case now.GetNumber() != v.GetNumber():
				c.addf("value %s of enum %s had number %d and has %d", v.GetName(), name, v.GetNumber(), now.GetNumber())
			}
		}
		for _, r := range was.GetReservedRange() {
			if !slices.ContainsFunc(is.GetReservedRange(), func(n *descriptorpb.EnumDescriptorProto_EnumReservedRange) bool {
				return n.GetStart() <= r.GetStart() && n.GetEnd() >= r.GetEnd()
			}) {
				c.addf("enum %s no longer reserves the numbers %d to %d", name, r.GetStart(), r.GetEnd())
			}
		}
		c.reservedNames("enum "+name, was.GetReservedName(), is.GetReservedName())
	}
}

// find returns the element with the given name, or nil.
func find[T interface {
	comparable
	GetName() string
}](in []T, name string) T {
	for _, e := range in {
		if e.GetName() == name {
			return e
		}
	}
	var none T
	return none
}
