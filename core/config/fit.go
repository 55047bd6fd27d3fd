// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/nearest"
)

// fit changes values of a file to the types of their keys where the reference's
// configuration language does: "4646" is a number and "true" a bool where one is due, and
// 5 is a text. It returns the paths of the keys that t does not have.
func fit(t reflect.Type, tree map[string]any, path string) (unknown []string) {
	for key, value := range tree {
		at := strconv.Quote(strings.TrimPrefix(path+"."+key, "."))
		of := t
		switch t.Kind() {
		case reflect.Map:
			of = t.Elem()
		case reflect.Struct:
			var known bool
			if of, known = keyOf(t, key); !known {
				if meant := nearest.Of(key, keysOf(t)); meant != "" {
					at += " (did you mean " + meant + "?)"
				}
				unknown = append(unknown, at)
				continue
			}
		}
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Map && reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			continue // it reads what it is given
		}
		if block, ok := value.(map[string]any); ok && (of.Kind() == reflect.Struct || of.Kind() == reflect.Map) {
			unknown = append(unknown, fit(of, block, path+"."+key)...)
			continue
		}
		tree[key] = as(of.Kind(), value)
	}
	return unknown
}

// keyOf returns the type of the field of a struct to which the decoder gives a key.
func keyOf(t reflect.Type, key string) (reflect.Type, bool) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			if of, ok := keyOf(field.Type, key); ok {
				return of, true
			}
		case name != "" && name != "-" && strings.EqualFold(name, key):
			return field.Type, true
		}
	}
	return nil, false
}

// keysOf returns the keys of a struct.
func keysOf(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case field.Anonymous && name == "":
			out = append(out, keysOf(field.Type)...)
		case name != "" && name != "-":
			out = append(out, name)
		}
	}
	return out
}

// as returns a value as one of a kind, or unchanged if it is none.
func as(kind reflect.Kind, value any) any {
	switch text, isText := value.(string); {
	case isText && kind == reflect.Bool:
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			return b
		}
	case isText && (reflect.Int <= kind && kind <= reflect.Uint64 || kind == reflect.Float32 || kind == reflect.Float64):
		if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
			return json.Number(text)
		}
	case kind == reflect.String:
		switch value.(type) {
		case float64, bool:
			return fmt.Sprint(value)
		}
	}
	return value
}
