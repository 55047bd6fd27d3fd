// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import "reflect"

// assign copies src to dst, whose types differ only in pointers, named integers and
// fields that dst does not have. A nil pointer leaves dst zero. Maps and slices of
// plain values are shared, because the draft is not used afterwards.
func assign(dst, src reflect.Value) {
	if src.Kind() == reflect.Pointer {
		if src.IsNil() {
			return
		}
		if dst.Kind() != reflect.Pointer {
			assign(dst, src.Elem())
			return
		}
	}
	switch {
	case src.Type() == dst.Type():
		dst.Set(src)
	case dst.Kind() == reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		assign(dst.Elem(), reflect.Indirect(src))
	case dst.Kind() == reflect.Struct:
		for i := range dst.NumField() {
			if f := src.FieldByName(dst.Type().Field(i).Name); f.IsValid() {
				assign(dst.Field(i), f)
			}
		}
	case dst.Kind() == reflect.Slice:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeSlice(dst.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			assign(dst.Index(i), src.Index(i))
		}
	case dst.Kind() == reflect.Map:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeMapWithSize(dst.Type(), src.Len()))
		for it := src.MapRange(); it.Next(); {
			e := reflect.New(dst.Type().Elem()).Elem()
			assign(e, it.Value())
			dst.SetMapIndex(it.Key(), e)
		}
	default:
		dst.Set(src.Convert(dst.Type()))
	}
}
