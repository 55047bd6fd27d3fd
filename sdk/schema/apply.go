// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Validate checks a config as written in a job file, in which a string with an
// interpolation, such as "${NOMAD_PORT_http}", may stand for any value. The error
// lists every problem: see ProblemsOf.
func (s *Schema) Validate(config map[string]any) error {
	w := walker{deferred: true}
	w.object("config", s, config)
	return w.err()
}

// Apply checks a config after interpolation and returns it in complete form: with
// defaults filled in, values converted to their declared types, and blocks in one form
// (an object for Block, a list of objects for BlockList and ListMapString). It does
// not change its input.
func (s *Schema) Apply(config map[string]any) (map[string]any, error) {
	w := walker{}
	out := w.object("config", s, config)
	if err := w.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// Decode applies the schema to config and decodes the result into a struct with json
// tags.
func (s *Schema) Decode(config map[string]any, into any) error {
	full, err := s.Apply(config)
	if err != nil {
		return err
	}
	body, err := json.Marshal(full)
	if err != nil {
		return errdefs.InvalidArgumentf("encode the config: %w", err)
	}
	return Unmarshal(body, into)
}

// Unmarshal decodes an applied config, such as TaskConfig.DriverConfig of a driver,
// into a struct with json tags. A name that the struct lacks is an error, since it
// means that the plugin's schema and struct differ.
func Unmarshal(config []byte, into any) error {
	if len(config) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Problems{{Path: "config." + wrong.Field, Text: mistyped(wrong)}}.err()
	}
	if err != nil {
		return errdefs.InvalidArgumentf("decode the config: %w", err)
	}
	return nil
}

func mistyped(e *json.UnmarshalTypeError) string {
	number, isNumber := strings.CutPrefix(e.Value, "number ")
	switch k := e.Type.Kind(); {
	case isNumber && k >= reflect.Int && k <= reflect.Int64:
		return fmt.Sprintf("must be a whole number of at most %d bits, is %s", e.Type.Bits(), number)
	case isNumber && k >= reflect.Uint && k <= reflect.Uint64:
		return fmt.Sprintf("must be a whole number of at least 0 and at most %d bits, is %s", e.Type.Bits(), number)
	}
	return fmt.Sprintf("a %s cannot be used as %s", e.Value, e.Type)
}

// walker walks a config along its schema and collects problems.
type walker struct {
	deferred bool   // strings with an interpolation stand for any value
	later    *Open  // if set, collects and leaves out values with an interpolation
	about    string // description of the current attribute
	secret   bool   // the value must not appear in problems
	problems Problems
	more     int // number of problems beyond those listed
}

// maxProblems limits the number of problems listed for one config.
const maxProblems = 100

func (w *walker) addf(path, format string, args ...any) {
	if w.full() {
		w.more++
		return
	}
	w.problems = append(w.problems, Problem{Path: path, Text: fmt.Sprintf(format, args...), Description: w.about})
}

func (w *walker) full() bool { return len(w.problems) >= maxProblems }

// err returns the problems as an error of class InvalidArgument, or nil.
func (w *walker) err() error {
	if w.more > 0 {
		w.problems = append(w.problems, Problem{Path: "config", Text: fmt.Sprintf("and %d more problems", w.more)})
	}
	return w.problems.err()
}

func (w *walker) object(path string, s *Schema, config map[string]any) map[string]any {
	out := make(map[string]any, len(s.Attributes))
	outer, secret := w.about, w.secret
	for i := range s.Attributes {
		a := &s.Attributes[i]
		v := config[a.Name]
		if v == nil && !a.Required {
			v = a.Default
		}
		w.about, w.secret = a.Description, secret || a.Sensitive
		if w.leaves(path+"."+a.Name, a, v) {
			continue
		}
		switch {
		case v == nil && a.Required:
			w.addf(path+"."+a.Name, "required")
		case v != nil:
			out[a.Name] = w.value(path+"."+a.Name, a, v)
		}
	}
	w.about, w.secret = "", secret
	w.unknown(path, s, config)
	w.about = outer
	return out
}

func (w *walker) unknown(path string, s *Schema, config map[string]any) {
	var names, unknown []string
	for _, a := range s.Attributes {
		names = append(names, a.Name)
	}
	for name := range config {
		if s.attribute(name) == nil {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	for i, name := range unknown {
		if w.full() {
			w.more += len(unknown) - i
			return
		}
		if n := nearest(name, names); n != "" {
			w.addf(path+"."+name, "unknown attribute; did you mean %q?", n)
		} else if len(names) == 0 {
			w.addf(path+"."+name, "unknown attribute; none is accepted here")
		} else {
			w.addf(path+"."+name, "unknown attribute; known are %s", strings.Join(names, ", "))
		}
	}
}

func (w *walker) value(path string, a *Attribute, v any) any {
	if text, ok := v.(string); ok && w.deferred && strings.Contains(text, "${") {
		return v
	}
	switch a.Type {
	case String:
		return w.oneOf(path, a.OneOf, w.str(path, v))
	case Number:
		return w.within(path, a.Range, w.number(path, v))
	case Bool:
		return w.boolean(path, v)
	case Duration:
		return w.duration(path, v)
	case ListString:
		return w.strings(path, v)
	case ListNumber:
		return w.listOf(path, v, func(p string, v any) any { return w.number(p, v) })
	case MapString:
		return w.mapOf(path, v, func(p string, v any) any { return w.str(p, v) })
	case ListMapString:
		return w.listOf(path, v, func(p string, v any) any {
			return w.mapOf(p, v, func(p string, v any) any { return w.str(p, v) })
		})
	case ListMapNumber:
		return w.listOf(path, v, func(p string, v any) any {
			return w.mapOf(p, v, func(p string, v any) any { return w.number(p, v) })
		})
	case Block:
		return w.block(path, a.Block, v)
	case BlockList:
		return w.listOf(path, v, func(p string, v any) any { return w.block(p, a.Block, v) })
	case Any:
		return v
	}
	w.addf(path, "the plugin's schema gives it the unknown type %q", a.Type)
	return nil
}

// oneOf checks that a string is one of the values that the schema lists.
func (w *walker) oneOf(path string, values []string, v any) any {
	text, ok := v.(string)
	if !ok || text == "" || len(values) == 0 || slices.Contains(values, text) {
		return v
	}
	w.addf(path, "must be one of %s, is %s", strings.Join(values, ", "), w.describe(text))
	return nil
}

// within checks that an already converted number is within the schema's range.
func (w *walker) within(path string, r *Range, v any) any {
	if _, later := v.(string); v == nil || r == nil || later {
		return v
	}
	if n, ok := v.(int64); !ok || n < r.Min || n > r.Max {
		w.addf(path, "must be a whole number from %d to %d, is %s", r.Min, r.Max, w.describe(v))
		return nil
	}
	return v
}

// str also accepts numbers and bools, as HCL does.
func (w *walker) str(path string, v any) any {
	switch x := v.(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	}
	if f, ok := toFloat(v); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	w.addf(path, "must be a string, is %s", w.describe(v))
	return nil
}

func (w *walker) number(path string, v any) any {
	f, ok := toFloat(v)
	if text, isText := v.(string); isText {
		if w.deferred && strings.Contains(text, "${") {
			return v
		}
		parsed, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		f, ok = parsed, err == nil
	}
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		w.addf(path, "must be a number, is %s", w.describe(v))
		return nil
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return f
}

func (w *walker) duration(path string, v any) any {
	if text, ok := v.(string); ok {
		if _, err := time.ParseDuration(text); err == nil {
			return text
		}
	}
	w.addf(path, "must be a duration as \"90s\" or \"1h30m\", is %s", w.describe(v))
	return nil
}

func (w *walker) boolean(path string, v any) any {
	switch x := v.(type) {
	case bool:
		return x
	case string:
		switch x {
		case "true", "1":
			return true
		case "false", "0":
			return false
		}
	}
	w.addf(path, "must be true or false, is %s", w.describe(v))
	return nil
}

func (w *walker) strings(path string, v any) any {
	return w.listOf(path, v, func(p string, v any) any { return w.str(p, v) })
}

// listOf also accepts a map in place of a list of maps: a single block is a list of
// one.
func (w *walker) listOf(path string, v any, each func(string, any) any) any {
	var items []any
	switch x := v.(type) {
	case []any:
		items = x
	case []string:
		for _, s := range x {
			items = append(items, s)
		}
	case []map[string]any:
		for _, m := range x {
			items = append(items, m)
		}
	case map[string]any:
		items = []any{x}
	default:
		w.addf(path, "must be a list, is %s", w.describe(v))
		return nil
	}
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = each(fmt.Sprintf("%s[%d]", path, i), item)
	}
	return out
}

// one returns the map v, or the only entry of the list v if that is a map.
func one(v any) (map[string]any, bool) {
	switch x := v.(type) {
	case map[string]any:
		return x, true
	case []any:
		if len(x) == 1 {
			return one(x[0])
		}
	case []map[string]any:
		if len(x) == 1 {
			return x[0], true
		}
	case map[string]string:
		m := make(map[string]any, len(x))
		for k, s := range x {
			m[k] = s
		}
		return m, true
	}
	return nil, false
}

func (w *walker) mapOf(path string, v any, each func(string, any) any) any {
	m, ok := one(v)
	if !ok {
		w.addf(path, "must be a map, is %s", w.describe(v))
		return nil
	}
	out := make(map[string]any, len(m))
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		out[k] = each(path+"."+k, m[k])
	}
	return out
}

func (w *walker) block(path string, s *Schema, v any) any {
	m, ok := one(v)
	if !ok {
		w.addf(path, "must be one block, is %s", w.describe(v))
		return nil
	}
	return w.object(path, s, m)
}

func toFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case int:
		return float64(x), true
	case int32:
		return float64(x), true
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, true
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	}
	return 0, false
}
