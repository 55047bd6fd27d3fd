// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"reflect"
	"strings"
	texttemplate "text/template"
	"unicode"

	"github.com/drover-project/drover/sdk/errdefs"
)

// builtinFunctions replace functions of text/template that can make long texts.
func builtinFunctions() map[string]function {
	return map[string]function{
		"print":    {fn: fmt.Sprint},
		"println":  {fn: fmt.Sprintln},
		"printf":   {fn: fmt.Sprintf, before: formatFits},
		"html":     {fn: texttemplate.HTMLEscaper},
		"js":       {fn: texttemplate.JSEscaper},
		"urlquery": {fn: texttemplate.URLQueryEscaper},
	}
}

// print is the end of every {{...}} that shows a value.
func (c *compiled) print(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "<no value>", nil
	case string:
		return v, c.run.charge(int64(len(v)))
	}
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !printsItself(rv.Type()) {
		if rv = rv.Elem(); !rv.IsValid() {
			return "<no value>", nil
		}
	}
	if k := rv.Kind(); k == reflect.Chan || k == reflect.Func {
		return "", errdefs.InvalidArgumentf("a %s cannot be printed", rv.Type())
	}
	if err := c.run.measure(rv); err != nil {
		return "", err
	}
	s := fmt.Sprint(rv.Interface())
	return s, c.run.charge(int64(len(s)))
}

// formatFits refuses formats whose widths, or arguments named again and again, make a text
// longer than the limit.
func formatFits(b *bound) error {
	format, args := b.args[0].String(), b.args[1]
	var sum, starred int64
	for i := range args.Len() {
		v := args.Index(i).Elem()
		switch v.Kind() {
		case reflect.String:
			sum += int64(v.Len())
		case reflect.Int, reflect.Int64:
			starred = max(starred, min(abs(v.Int()), 1<<40))
		}
	}
	verbs := int64(strings.Count(format, "%"))
	if strings.Contains(format, "[") {
		sum *= max(verbs, 1)
	}
	sum += int64(strings.Count(format, "*")) * starred
	for i := 0; i < len(format); i++ {
		var n int64
		for ; i < len(format) && format[i] >= '0' && format[i] <= '9'; i++ {
			n = min(n*10+int64(format[i]-'0'), 1<<40)
		}
		sum += n
	}
	return b.run.room(sum + int64(len(format)))
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func textFunctions() map[string]function {
	return map[string]function{
		"indent":     {fn: indent, before: indentFits},
		"join":       {fn: join, before: joinFits},
		"split":      {fn: split, before: splitFits},
		"splitToMap": {fn: splitToMap},
		"replaceAll": {fn: func(from, to, s string) string { return strings.ReplaceAll(s, from, to) }, before: replaceFits(0, 1, 2)},
		"regexMatch": {fn: regexMatch},
		"regexReplaceAll": {make: func(c *compiled) any {
			return func(re, to, s string) (string, error) { return c.run.regexReplace(re, s, to, true) }
		}},
		"toLower":    {fn: strings.ToLower},
		"toUpper":    {fn: strings.ToUpper},
		"toTitle":    {fn: title},
		"trim":       {fn: func(cut, s string) string { return strings.Trim(s, cut) }},
		"trimPrefix": {fn: func(prefix, s string) string { return strings.TrimPrefix(s, prefix) }},
		"trimSuffix": {fn: func(suffix, s string) string { return strings.TrimSuffix(s, suffix) }},
		"trimSpace":  {fn: strings.TrimSpace},
	}
}

// title writes the first letter of each word as a capital.
func title(s string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		start := !unicode.IsLetter(before) && !unicode.IsDigit(before) && before != '_' && before != '\''
		before = r
		if start {
			return unicode.ToTitle(r)
		}
		return r
	}, s)
}

// indent puts spaces before each line that is not empty.
func indent(spaces int, s string) (string, error) {
	if spaces < 0 {
		return "", errdefs.InvalidArgumentf("indent: %d spaces; the number must not be negative", spaces)
	}
	pad := strings.Repeat(" ", spaces)
	var out strings.Builder
	for line := range strings.Lines(s) {
		if line != "\n" {
			out.WriteString(pad)
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

func indentFits(b *bound) error {
	spaces, s := b.args[0].Int(), b.args[1].String()
	return b.run.product(spaces, int64(strings.Count(s, "\n"))+1, int64(len(s)))
}

// product refuses n times each, and more, if that is more than a value may have.
func (e *execution) product(n, each, more int64) error {
	if n < 0 || each < 0 {
		return nil
	}
	if n > e.maxBytes || each > e.maxBytes {
		return e.room(e.maxBytes + 1)
	}
	return e.room(n*each + more)
}

func join(sep string, list any) (string, error) {
	parts, err := texts(list)
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	return strings.Join(parts, sep), nil
}

func joinFits(b *bound) error {
	v := reflect.Indirect(b.args[1].Elem())
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return nil
	}
	return b.run.product(int64(v.Len()), int64(b.args[0].Len()), 0)
}

func split(sep, s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return []string{}
	}
	return strings.Split(s, sep)
}

func splitFits(b *bound) error {
	return piecesFit(b.args[0], b.args[1])
}

func piecesFit(sep, text reflect.Value) error {
	return elements(int64(strings.Count(text.String(), sep.String())))
}

// splitToMap reads "a=1;b=2" with the separators of pairs and of key and value.
func splitToMap(pairs, between, s string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, pairs) {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, between)
		if !ok {
			return nil, errdefs.InvalidArgumentf("splitToMap: %q has no %q between key and value", pair, between)
		}
		if out[strings.TrimSpace(k)] = strings.TrimSpace(v); len(out) > maxElements {
			return nil, elements(int64(len(out)))
		}
	}
	return out, nil
}

// replaceFits bounds functions that replace text; from, to and text are the positions of
// their arguments.
func replaceFits(from, to, text int) func(*bound) error {
	return func(b *bound) error {
		f, t, s := b.args[from].String(), b.args[to].String(), b.args[text].String()
		if len(t) <= len(f) {
			return nil
		}
		return b.run.product(int64(strings.Count(s, f)), int64(len(t)-len(f)), int64(len(s)))
	}
}
