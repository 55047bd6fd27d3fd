// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package protocheck

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	lowerSnake  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	pascal      = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	upperSnake  = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	versioned   = regexp.MustCompile(`\.v[0-9]+$`)
	enumZero    = "_UNSPECIFIED"
	unitOfField = regexp.MustCompile(`(?i)\b(bytes|KiB|MiB|seconds|milliseconds|microseconds|nanoseconds|percent|MHz|degrees|characters|numbers?|ids?|uid|gid|in unit|unit of|same unit|watts)\b`)
)

// Lint returns the problems of the .proto files in dir, as "FILE:LINE: PROBLEM (RULE)".
// Where buf has the same rule, RULE is buf's name for it. FIELD_UNIT is ours: the comment
// of a number must name its unit.
func Lint(ctx context.Context, dir fs.FS) ([]string, error) {
	files, err := compile(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		l := &linter{file: files[path]}
		l.run()
		out = append(out, l.problems...)
	}
	return out, nil
}

type linter struct {
	file     protoreflect.FileDescriptor
	problems []string
}

func (l *linter) addf(d protoreflect.Descriptor, rule, format string, args ...any) {
	line := l.file.SourceLocations().ByDescriptor(d).StartLine + 1
	l.problems = append(l.problems, fmt.Sprintf("%s:%d: %s (%s)", l.file.Path(), line, fmt.Sprintf(format, args...), rule))
}

// comment checks that something has a comment above it, and returns it.
func (l *linter) comment(d protoreflect.Descriptor, rule string) string {
	text := strings.TrimSpace(l.file.SourceLocations().ByDescriptor(d).LeadingComments)
	if text == "" {
		l.addf(d, rule, "%s has no comment above it", d.FullName())
	}
	return text
}

// name checks the form of a name.
func (l *linter) name(d protoreflect.Descriptor, form *regexp.Regexp, rule string) {
	if !form.MatchString(string(d.Name())) {
		l.addf(d, rule, "the name %s has not the usual form", d.FullName())
	}
}

func (l *linter) run() {
	if !versioned.MatchString(string(l.file.Package())) {
		l.addf(l.file, "PACKAGE_VERSION_SUFFIX", "the package %s does not end with a version", l.file.Package())
	}
	for i := range l.file.Services().Len() {
		s := l.file.Services().Get(i)
		l.comment(s, "COMMENT_SERVICE")
		l.name(s, pascal, "SERVICE_PASCAL_CASE")
		for j := range s.Methods().Len() {
			l.comment(s.Methods().Get(j), "COMMENT_RPC")
			l.name(s.Methods().Get(j), pascal, "RPC_PASCAL_CASE")
		}
	}
	l.messages(l.file.Messages())
	l.enums(l.file.Enums())
}

func (l *linter) messages(all protoreflect.MessageDescriptors) {
	for i := range all.Len() {
		m := all.Get(i)
		if m.IsMapEntry() {
			continue
		}
		l.comment(m, "COMMENT_MESSAGE")
		l.name(m, pascal, "MESSAGE_PASCAL_CASE")
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			l.name(f, lowerSnake, "FIELD_LOWER_SNAKE_CASE")
			if text := l.comment(f, "COMMENT_FIELD"); text != "" && counts(f) && !unitOfField.MatchString(text) {
				l.addf(f, "FIELD_UNIT", "the comment of the number %s does not say in what it counts: bytes, seconds, a number of something", f.FullName())
			}
		}
		for j := range m.Oneofs().Len() {
			if o := m.Oneofs().Get(j); !o.IsSynthetic() {
				l.comment(o, "COMMENT_ONEOF")
			}
		}
		l.messages(m.Messages())
		l.enums(m.Enums())
	}
}

func (l *linter) enums(all protoreflect.EnumDescriptors) {
	for i := range all.Len() {
		e := all.Get(i)
		l.comment(e, "COMMENT_ENUM")
		l.name(e, pascal, "ENUM_PASCAL_CASE")
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			l.comment(v, "COMMENT_ENUM_VALUE")
			l.name(v, upperSnake, "ENUM_VALUE_UPPER_SNAKE_CASE")
			if v.Number() == 0 && !strings.HasSuffix(string(v.Name()), enumZero) {
				l.addf(v, "ENUM_ZERO_VALUE_SUFFIX", "the value 0 of %s must end with %s: it is what an unknown or absent value is read as", e.FullName(), enumZero)
			}
		}
	}
}

// counts reports whether a field is a number, or a map of numbers.
func counts(f protoreflect.FieldDescriptor) bool {
	if f.IsMap() {
		f = f.MapValue()
	}
	switch f.Kind() {
	case protoreflect.BoolKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}
