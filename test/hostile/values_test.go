// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostile_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// values generates random hostile values of any type.
type values struct {
	*rand.Rand
	known []string // texts that have a meaning for the server
	tame  bool     // no missing or oversized elements in lists
}

var texts = []string{
	"", "a", "../../etc", "/", "\x00", "\xff\xfe", "*", "${attr.x}", "-1", "1-65535", "0-0,0-0", "default", "all",
	"running", "complete", "failed", "ready", "down", "global", "dc1", strings.Repeat("x", 200), "bridge", "host",
}

var numbers = []int64{0, 1, -1, 2, 3, 100, 65535, 65536, 1 << 20, 1 << 31, -1 << 31, 1 << 50, math.MaxInt64, math.MinInt64}

// of fills v with a random value. depth limits the nesting of objects.
func (r *values) of(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.number())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(r.number()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, -1, math.MaxFloat64, math.NaN(), math.Inf(1)}[r.IntN(r.upTo(3, 5))])
	case reflect.String:
		v.SetString(r.text())
	case reflect.Struct:
		r.fields(v, depth)
	case reflect.Pointer:
		if depth > 0 && (r.tame || r.IntN(4) > 0) {
			v.Set(reflect.New(v.Type().Elem()))
			r.of(v.Elem(), depth-1)
		}
	case reflect.Slice:
		r.list(v, depth)
	case reflect.Map:
		r.entries(v, depth)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(r.text()))
		}
	}
}

// upTo returns how many of a list of choices, ordered from harmless to hostile, may
// be used.
func (r *values) upTo(tame, all int) int {
	if r.tame {
		return tame
	}
	return all
}

func (r *values) number() int64 {
	if r.tame {
		return []int64{0, 1, 3, 100, 65535}[r.IntN(5)]
	}
	return numbers[r.IntN(len(numbers))]
}

func (r *values) text() string {
	switch n := r.IntN(100); {
	case n < 40 && len(r.known) > 0:
		return r.known[r.IntN(len(r.known))]
	case n == 99 && !r.tame:
		return strings.Repeat("y", 1<<20)
	}
	return texts[r.IntN(len(texts))]
}

func (r *values) fields(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		most := int64(1) << 40 // seconds; JSON can represent some of these numbers
		if r.tame {
			most = 1 << 35
		}
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(most), 0)))
		return
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() && r.IntN(5) > 0 {
			r.of(f, depth)
		}
	}
}

func (r *values) list(v reflect.Value, depth int) {
	n := r.IntN(4)
	if r.IntN(200) == 0 && !r.tame {
		n = 20_000
	}
	if depth <= 0 {
		n = 0
	}
	out := reflect.MakeSlice(v.Type(), n, n)
	for i := range min(n, 3) {
		r.of(out.Index(i), depth-1)
	}
	v.Set(out)
}

func (r *values) entries(v reflect.Value, depth int) {
	if depth <= 0 || r.IntN(5) == 0 {
		return
	}
	out := reflect.MakeMap(v.Type())
	for range r.IntN(4) {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.of(key, depth-1)
		r.of(value, depth-1)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}
