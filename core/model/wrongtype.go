// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// WrongType explains an error of decoding raw into v, for people who do not know our types:
// if a value has a wrong type, the error names its path and what it must be. Other errors
// are returned as they are. name is the name of the whole value; it may be empty.
func WrongType(err error, raw []byte, v any, name string) error {
	var first json.RawMessage // data after it is another error
	if err == nil || json.NewDecoder(bytes.NewReader(raw)).Decode(&first) != nil {
		return err
	}
	w := &unread{places: map[reflect.Type]map[string]reflect.Type{}}
	if text := w.mistake(first, reflect.TypeOf(v), name); text != "" {
		return errdefs.InvalidArgumentf("%s", text)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // such as the first of two fields with one name
		return errdefs.InvalidArgumentf("%s", notOf(below(name, wrong.Field), wrong.Type, nil))
	}
	return err
}

// mistake returns what is wrong with the first value that does not have the type t; empty
// if nothing is.
func (u *unread) mistake(raw json.RawMessage, t reflect.Type, path string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if string(raw) == "null" {
		return ""
	}
	var err error
	own := reflect.PointerTo(t).Implements(jsonUnmarshaler)
	switch kind := t.Kind(); {
	case !own && (kind == reflect.Struct || kind == reflect.Map):
		var object map[string]json.RawMessage
		if err = json.Unmarshal(raw, &object); err == nil {
			return u.mistakeIn(object, t, path)
		}
	case !own && kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var list []json.RawMessage
		if err = json.Unmarshal(raw, &list); err == nil {
			for i, value := range list {
				if text := u.mistake(value, t.Elem(), path+"["+strconv.Itoa(i)+"]"); text != "" {
					return text
				}
			}
			return ""
		}
	default:
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return ""
	case own && t != timeType && errors.As(err, &wrong):
		return notOf(below(path, wrong.Field), wrong.Type, raw)
	case own && t != timeType && !strings.ContainsAny(path, ".["):
		return err.Error() // clients know the reference's words for a field of the body itself
	case own && t != timeType:
		return path + ": " + err.Error()
	}
	return notOf(path, t, raw)
}

// mistakeIn is mistake for the fields of an object.
func (u *unread) mistakeIn(object map[string]json.RawMessage, t reflect.Type, path string) string {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at, place := below(path, key), reflect.Type(nil)
		if t.Kind() == reflect.Map {
			at, place = fmt.Sprintf("%s[%q]", path, key), t.Elem()
		} else {
			place = u.fieldsOf(t)[strings.ToLower(key)]
		}
		if place == nil {
			continue
		}
		if text := u.mistake(object[key], place, at); text != "" {
			return text
		}
	}
	return ""
}

func below(path, field string) string { return strings.Trim(path+"."+field, ".") }

// notOf says that a value is not of a type. Without raw it does not say what it is.
func notOf(path string, t reflect.Type, raw json.RawMessage) string {
	if path == "" {
		path = "the document"
	}
	is := ""
	switch text := string(raw); {
	case text == "":
	case text[0] == '"':
		is = "text"
	case text[0] == '{':
		is = "an object"
	case text[0] == '[':
		is = "a list"
	default:
		is = text[:min(len(text), 40)]
	}
	want := wanted(t, is)
	if is == "" || strings.HasPrefix(want, is) { // text that is not in base64
		return path + " must be " + want
	}
	return path + " must be " + want + ", not " + is
}

// wanted describes a type in the words of JSON. is is the value, if it is a number.
func wanted(t reflect.Type, is string) string {
	number := is != "" && strings.Contains("-0123456789", is[:1])
	switch {
	case t == timeType:
		return `a time such as "2026-01-02T15:04:05Z"`
	case t == reflect.TypeFor[time.Duration]():
		return "a whole number of nanoseconds"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "text in base64"
		}
		return "a list"
	case reflect.Int8, reflect.Int16, reflect.Int32:
		if number {
			return fmt.Sprintf("a whole number from %d to %d", -1<<(t.Bits()-1), 1<<(t.Bits()-1)-1)
		}
		return "a whole number"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		if number {
			return fmt.Sprintf("a whole number from 0 to %d", 1<<t.Bits()-1)
		}
		return "a whole number"
	case reflect.Uint, reflect.Uint64:
		if number {
			return "a whole number of at least 0"
		}
		return "a whole number"
	}
	return "an object"
}
