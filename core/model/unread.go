// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// UnreadFields returns, sorted, the names of the fields of a JSON value that are set
// but not part of t, which encoding/json would silently drop: "TaskGroups[0].Cuont".
// Zero values do not count, since clients send them for everything that is not set.
// Neither do the indexes and times that answers add to objects.
func UnreadFields(raw []byte, t reflect.Type) []string {
	u := unread{places: map[reflect.Type]map[string]reflect.Type{}}
	u.walk(raw, t, "")
	slices.Sort(u.found)
	return u.found
}

type unread struct {
	places map[reflect.Type]map[string]reflect.Type // of structs: the types of their fields by lower case name
	found  []string
}

// echoed are fields that answers add to objects; clients send them back.
var echoed = []string{"Hash", "CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime"}

var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (u *unread) walk(raw json.RawMessage, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(jsonUnmarshaler) {
		return
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return // decoding reports the error
		}
		for key, value := range object {
			u.field(key, value, t, strings.TrimPrefix(path+"."+key, "."))
		}
	case reflect.Slice:
		var list []json.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || json.Unmarshal(raw, &list) != nil {
			return
		}
		for i, value := range list {
			u.walk(value, t.Elem(), path+"["+strconv.Itoa(i)+"]")
		}
	}
}

func (u *unread) field(key string, value json.RawMessage, t reflect.Type, path string) {
	if t.Kind() == reflect.Map {
		u.walk(value, t.Elem(), path)
		return
	}
	if place := u.fieldsOf(t)[strings.ToLower(key)]; place != nil {
		u.walk(value, place, path)
	} else if saysSomething(value) && !slices.Contains(echoed, key) {
		u.found = append(u.found, path)
	}
}

func (u *unread) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := u.places[t]; ok {
		return known
	}
	out := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if key := strings.ToLower(name); out[key] == nil || len(f.Index) == 1 {
			out[key] = f.Type // an outer field hides an embedded one
		}
	}
	u.places[t] = out
	return out
}

// saysSomething reports whether a value is not the zero value of its kind.
func saysSomething(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "null", "false", "0", `""`, "[]", "{}":
		return false
	}
	return true
}
