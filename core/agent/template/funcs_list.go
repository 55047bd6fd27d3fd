// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

func listFunctions() map[string]function {
	return map[string]function{
		"in":             {fn: func(list, v any) (bool, error) { return in(list, v) }},
		"contains":       {fn: func(v, list any) (bool, error) { return in(list, v) }},
		"containsAll":    {fn: quantified(func(hits, n int) bool { return hits == n })},
		"containsAny":    {fn: quantified(func(hits, _ int) bool { return hits > 0 })},
		"containsNone":   {fn: quantified(func(hits, _ int) bool { return hits == 0 })},
		"containsNotAll": {fn: quantified(func(hits, n int) bool { return hits < n })},
		"loop":           {fn: loop},
		"explode":        {fn: explode},
		"explodeMap":     {fn: explodeMap},
		"mergeMap":       {fn: func(below, above map[string]any, _ ...any) map[string]any { return merge(above, below, false) }},
		"mergeMapWithOverride": {fn: func(above, below map[string]any, _ ...any) map[string]any {
			return merge(below, above, true)
		}},
		"byKey":  {fn: byKey},
		"byTag":  {fn: byTag},
		"byPort": {fn: byPort},
	}
}

// list sees v as a list.
func list(v any) (reflect.Value, error) {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer || rv.Kind() == reflect.Interface {
		rv = rv.Elem()
	}
	switch rv.Kind() {
	case reflect.Slice, reflect.Array:
		return rv, nil
	case reflect.Invalid:
		return reflect.ValueOf([]any{}), nil
	}
	return rv, errdefs.InvalidArgumentf("a value of type %T is not a list", v)
}

func texts(v any) ([]string, error) {
	rv, err := list(v)
	if err != nil {
		return nil, err
	}
	out := make([]string, rv.Len())
	for i := range out {
		out[i] = fmt.Sprint(rv.Index(i).Interface())
	}
	return out, nil
}

// in reports whether v is an element of a list, a key of a map, or a part of a text.
func in(within, v any) (bool, error) {
	if text, ok := within.(string); ok {
		part, ok := v.(string)
		if !ok {
			return false, errdefs.InvalidArgumentf("in: a value of type %T is not part of a text", v)
		}
		return strings.Contains(text, part), nil
	}
	rv := reflect.ValueOf(within)
	if rv.Kind() == reflect.Map {
		for _, k := range rv.MapKeys() {
			if same(k, v) {
				return true, nil
			}
		}
		return false, nil
	}
	rv, err := list(within)
	if err != nil {
		return false, fmt.Errorf("in: %w", err)
	}
	for i := range rv.Len() {
		if same(rv.Index(i), v) {
			return true, nil
		}
	}
	return false, nil
}

// same compares whole numbers by value whatever their type, and the rest as it is.
func same(a reflect.Value, v any) bool {
	for a.Kind() == reflect.Interface {
		a = a.Elem()
	}
	b := reflect.ValueOf(v)
	switch {
	case !a.IsValid() || !b.IsValid():
		return a.IsValid() == b.IsValid()
	case a.Kind() == reflect.String && b.Kind() == reflect.String:
		return a.String() == b.String()
	case a.CanInt() && b.CanInt():
		return a.Int() == b.Int()
	case a.CanUint() && b.CanUint():
		return a.Uint() == b.Uint()
	case a.CanFloat() && b.CanInt():
		return a.Float() == float64(b.Int())
	}
	return reflect.DeepEqual(a.Interface(), v)
}

// quantified makes a function of a list of wanted elements and a list.
func quantified(holds func(hits, wanted int) bool) any {
	return func(wanted, within any) (bool, error) {
		w, err := list(wanted)
		if err != nil {
			return false, err
		}
		l, err := list(within)
		if err != nil {
			return false, err
		}
		if err := elements(int64(w.Len()) * int64(l.Len())); err != nil {
			return false, err
		}
		hits := 0
		for i := range w.Len() {
			found, err := in(within, w.Index(i).Interface())
			if err != nil {
				return false, err
			}
			if found {
				hits++
			}
		}
		return holds(hits, w.Len()), nil
	}
}

// loop gives the whole numbers from 0 to under n, or from one to under the other.
func loop(bounds ...any) ([]int64, error) {
	var from, to int64
	for i, b := range bounds {
		n, _, whole, err := number("loop", b)
		if err != nil || !whole {
			return nil, errdefs.InvalidArgumentf("loop: %v is not a whole number", b)
		}
		if i == 0 && len(bounds) > 1 {
			from = n
		} else {
			to = n
		}
	}
	if len(bounds) < 1 || len(bounds) > 2 {
		return nil, errdefs.InvalidArgumentf("loop: takes one or two numbers, not %d", len(bounds))
	}
	if from < -1<<40 || to > 1<<40 || to-from > maxElements {
		return nil, errdefs.ResourceExhaustedf("loop: from %d to %d is too far; at most %d turns are made", from, to, maxElements)
	}
	out := make([]int64, 0, max(to-from, 0))
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out, nil
}

// pairs returns the keys and values of the items of a variable, of keys of a registry or of a
// map of strings.
func pairs(v any) (map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	case map[string]string:
		out := make(map[string]any, len(v))
		for k, s := range v {
			out[k] = s
		}
		return out, nil
	case VariableItems:
		out := make(map[string]any, len(v))
		for k, i := range v {
			out[k] = i.Value
		}
		return out, nil
	case []VariableItem:
		out := make(map[string]any, len(v))
		for _, i := range v {
			out[i.Key] = i.Value
		}
		return out, nil
	case []KeyPair:
		out := make(map[string]any, len(v))
		for _, p := range v {
			out[p.Key] = p.Value
		}
		return out, nil
	}
	return nil, errdefs.InvalidArgumentf("a value of type %T has no keys", v)
}

// explode makes nested maps of keys with slashes.
func explode(v any) (map[string]any, error) {
	flat, err := pairs(v)
	if err != nil {
		return nil, fmt.Errorf("explode: %w", err)
	}
	return explodeMap(flat)
}

func explodeMap(flat map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		parts := strings.Split(strings.Trim(key, "/"), "/")
		if len(parts) > maxValueDepth {
			return nil, errdefs.InvalidArgumentf("explode: a key has more than %d parts", maxValueDepth)
		}
		at := out
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			inner, ok := at[part].(map[string]any)
			if !ok {
				return nil, errdefs.InvalidArgumentf("explode: the key %q goes through %q, which has a value of its own", key, part)
			}
			at = inner
		}
		at[parts[len(parts)-1]] = flat[key]
	}
	return out, nil
}

// merge returns a new map with the entries of both; nested maps are merged too. For a key
// in both, above wins if override is set, otherwise below.
func merge(below, above map[string]any, override bool) map[string]any {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range above {
		old, has := out[k]
		oldMap, oldIs := old.(map[string]any)
		newMap, newIs := v.(map[string]any)
		switch {
		case !has:
			out[k] = v
		case oldIs && newIs:
			out[k] = merge(oldMap, newMap, override)
		case override:
			out[k] = v
		}
	}
	return out
}

// byKey groups by the first part of keys with slashes. Keys of a registry stay what they are,
// with the rest as their key.
func byKey(v any) (map[string]map[string]any, error) {
	flat, err := pairs(v)
	if err != nil {
		return nil, fmt.Errorf("byKey: %w", err)
	}
	if list, ok := v.([]KeyPair); ok {
		for _, p := range list {
			_, rest, _ := strings.Cut(p.Key, "/")
			flat[p.Key] = KeyPair{Path: p.Path, Key: rest, Value: p.Value}
		}
	}
	out := map[string]map[string]any{}
	for key, value := range flat {
		top, rest, _ := strings.Cut(strings.Trim(key, "/"), "/")
		if out[top] == nil {
			out[top] = map[string]any{}
		}
		out[top][rest] = value
	}
	return out, nil
}

// byTag groups services, or summaries of services, by each of their tags.
func byTag(v any) (map[string][]any, error) {
	out := map[string][]any{}
	add := func(tags Tags, service any) {
		for _, tag := range tags {
			out[tag] = append(out[tag], service)
		}
	}
	switch v := v.(type) {
	case []Service:
		for _, s := range v {
			add(s.Tags, s)
		}
	case []HealthService:
		for _, s := range v {
			add(s.Tags, s)
		}
	case []ServiceSummary:
		for _, s := range v {
			add(s.Tags, s)
		}
	default:
		return nil, errdefs.InvalidArgumentf("byTag: a value of type %T is not a list of services", v)
	}
	return out, nil
}

// byPort groups services by their port.
func byPort(v any) (map[int][]any, error) {
	out := map[int][]any{}
	switch v := v.(type) {
	case []Service:
		for _, s := range v {
			out[s.Port] = append(out[s.Port], s)
		}
	case []HealthService:
		for _, s := range v {
			out[s.Port] = append(out[s.Port], s)
		}
	default:
		return nil, errdefs.InvalidArgumentf("byPort: a value of type %T is not a list of services", v)
	}
	return out, nil
}
