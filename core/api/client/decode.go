// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"bufio"
	"encoding/json"
	"io"
	"reflect"
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
)

// decode reads JSON into out. It refuses a null that stands for an object, which callers would
// take for an empty one or fail on: no agent answers so, but what stands before one may.
func decode(body io.Reader, out any) error {
	in := bufio.NewReader(body)
	object := slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Struct}, reflect.TypeOf(out).Elem().Kind())
	if start, _ := in.Peek(4); object && string(start) == "null" { // what cannot be read fails below
		return notOurs("it is null")
	}
	if err := json.NewDecoder(in).Decode(out); err != nil {
		return err
	}
	got := reflect.ValueOf(out).Elem()
	if hollow(got) {
		return notOurs("it is empty")
	}
	if got.Kind() == reflect.Slice && got.Type().Elem().Kind() == reflect.Pointer {
		for i := range got.Len() {
			if got.Index(i).IsNil() {
				return notOurs("its list has a null")
			}
			if hollow(got.Index(i)) {
				return notOurs("its list has an empty object")
			}
		}
	}
	return nil
}

// hollow reports whether an object embeds another one of which nothing was said.
func hollow(v reflect.Value) bool {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous && v.Field(i).Kind() == reflect.Pointer && v.Field(i).IsNil() {
			return true
		}
	}
	return false
}

func notOurs(what string) error {
	return errdefs.Internalf("%s, which no agent of Drover answers; is the address (-address, DROVER_ADDR) that of an agent?", what)
}
