// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Texts of plugins are shown on terminals: names, descriptions, events and errors. They are
// cleaned here, where they enter the agent, so that no code that shows them needs to. Input
// and output of tasks are left as they are.

// verbatim are the methods whose answers are not shown to people: inputs of tasks, output
// of tasks, and data that the plugin gets back.
var verbatim = map[string]bool{
	"StartTask": true, "RecoverTask": true, "ListTasks": true, "ExecTask": true, "ExecTaskStreaming": true,
	"Reserve": true, "ConfigSchema": true, "TaskConfigSchema": true, "CreateNetwork": true,
}

// plain returns a text without characters that change how a terminal shows what comes
// after them. Ends of lines and tabs become spaces; others are written as escapes.
func plain(s string) string {
	if strings.IndexFunc(s, moves) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			out.WriteByte(' ')
		case moves(r) && r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case moves(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// moves reports whether a character is a control character or changes the direction or
// the line of the text after it.
func moves(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029 || r == 0x200e || r == 0x200f
}

// plainTexts makes the texts of a plugin's answers and errors plain.
func plainTexts() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := next(ctx, method, req, reply, conn, opts...)
			plainAnswer(method, reply)
			return plainError(err)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := next(ctx, desc, conn, method, opts...)
			if err != nil {
				return nil, plainError(err)
			}
			return &plainStream{s, method}, nil
		}),
	}
}

type plainStream struct {
	grpc.ClientStream
	method string
}

// RecvMsg implements grpc.ClientStream.
func (s *plainStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		plainAnswer(s.method, m)
	}
	return plainError(err)
}

func plainError(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() == codes.OK || plain(st.Message()) == st.Message() {
		return err
	}
	p := st.Proto()
	p.Message = plain(p.GetMessage())
	return status.FromProto(p).Err()
}

func plainAnswer(method string, answer any) {
	if m, ok := answer.(proto.Message); ok && !verbatim[path.Base(method)] {
		plainMessage(m.ProtoReflect())
	}
}

// plainMessage makes the texts of a message and of those within it plain.
func plainMessage(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			plainMap(f, v.Map())
		case f.Kind() == protoreflect.StringKind && f.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfString(plain(v.List().Get(i).String())))
			}
		case f.Kind() == protoreflect.StringKind:
			if text := v.String(); plain(text) != text {
				m.Set(f, protoreflect.ValueOfString(plain(text)))
			}
		case f.Message() != nil && f.IsList():
			for i := range v.List().Len() {
				plainMessage(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			plainMessage(v.Message())
		}
		return true
	})
}

func plainMap(f protoreflect.FieldDescriptor, m protoreflect.Map) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		key, value := k, v
		if f.MapKey().Kind() == protoreflect.StringKind {
			key = protoreflect.ValueOfString(plain(k.String())).MapKey()
		}
		switch {
		case f.MapValue().Kind() == protoreflect.StringKind:
			value = protoreflect.ValueOfString(plain(v.String()))
		case f.MapValue().Message() != nil:
			plainMessage(v.Message())
		}
		if key.Interface() != k.Interface() {
			m.Clear(k)
		} else if f.MapValue().Kind() != protoreflect.StringKind || value.String() == v.String() {
			return true
		}
		m.Set(key, value)
		return true
	})
}
