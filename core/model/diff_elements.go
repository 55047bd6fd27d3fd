// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"reflect"
	"sort"
	"strconv"
)

// element is one of several blocks, with the key that identifies it.
type element struct {
	key   string
	value reflect.Value
}

// elements compares lists of blocks, independent of order: it matches them by name if
// they have one, otherwise by their content.
func (d differ) elements(name string, olds, news []element) []*ObjectDiff {
	var out []*ObjectDiff
	byKey := map[string][]reflect.Value{}
	for _, e := range news {
		byKey[e.key] = append(byKey[e.key], e.value)
	}
	object := objectName(name)
	for _, e := range olds {
		if rest := byKey[e.key]; len(rest) > 0 {
			byKey[e.key] = rest[1:]
			out = append(out, d.structs(object, e.value, rest[0])...)
			continue
		}
		out = append(out, differ{d.hasOld, false, d.context}.structs(object, e.value, reflect.Zero(e.value.Type()))...)
	}
	for _, e := range news {
		if rest := byKey[e.key]; len(rest) > 0 && rest[0] == e.value {
			byKey[e.key] = rest[1:]
			out = append(out, differ{false, d.hasNew, d.context}.structs(object, reflect.Zero(e.value.Type()), e.value)...)
		}
	}
	return out
}

func sliceElements(v reflect.Value) []element {
	out := make([]element, 0, v.Len())
	for i := range v.Len() {
		out = append(out, element{keyOf(v.Index(i)), v.Index(i)})
	}
	return out
}

func mapElements(v reflect.Value) []element {
	out := make([]element, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		out = append(out, element{scalar(it.Key()), it.Value()})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].key < out[j].key })
	return out
}

// keyOf returns the name, label or destination of a block, or else its whole content.
func keyOf(v reflect.Value) string {
	e := reflect.Indirect(v)
	if !e.IsValid() {
		return ""
	}
	if e.Type() == reflect.TypeFor[NetworkResource]() {
		return "network"
	}
	for _, name := range []string{"Name", "Label", "DestPath"} {
		if f := e.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			return f.String()
		}
	}
	flat := map[string]string{}
	flattenStruct("", e, flat)
	keys := make([]string, 0, len(flat))
	for k := range flat {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	out := ""
	for _, k := range keys {
		out += k + "=" + strconv.Quote(flat[k]) + ";"
	}
	return out
}

func flattenStruct(path string, v reflect.Value, into map[string]string) {
	v = reflect.Indirect(v)
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			flattenStruct(path+"."+v.Type().Field(i).Name, v.Field(i), into)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			flattenStruct(path+"["+strconv.Itoa(i)+"]", v.Index(i), into)
		}
	default:
		flatten(path, v, into)
	}
}
