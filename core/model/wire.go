// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Bounds limits the size of a value from another machine.
type Bounds struct {
	Text    int // bytes of one string or byte slice
	Entries int // entries of one list or map
	Total   int // bytes of all texts, plus entryCost for each entry
}

// entryCost is the fixed cost of an entry of a list or map, in bytes.
const entryCost = 16

// NoNulls returns an error of class InvalidArgument that names the place if a list or
// map in the value contains null instead of an object. name is the name of the value
// in the error.
func NoNulls(name string, v any) error {
	return (&walk{}).of(name, v)
}

// Check returns an error for everything that NoNulls rejects, for values beyond the
// bounds, and for numbers and times that JSON cannot represent, since nobody could
// read the value back.
func (b Bounds) Check(name string, v any) error {
	return (&walk{bounds: &b}).of(name, v)
}

// walk is one traversal of a value.
type walk struct {
	bounds *Bounds              // nil: sizes are not checked
	caps   map[reflect.Type]int // limits for lists and maps of certain types, in place of bounds.Entries
	spent  int
}

// flaw is a problem at a place in the value. The path of the place is built while the
// recursion returns.
type flaw struct{ place, text string }

func (f *flaw) in(format string, a any) *flaw {
	if f != nil {
		f.place = fmt.Sprintf(format, a) + f.place
	}
	return f
}

func (w *walk) of(name string, v any) error {
	if f := w.value(reflect.ValueOf(v)); f != nil {
		where := name + f.place
		if name == "" { // a field of the body is named as its sender knows it
			where = cmp.Or(strings.TrimPrefix(f.place, "."), "the body")
		}
		return errdefs.InvalidArgumentf("%s %s", where, f.text)
	}
	return nil
}

var timeType = reflect.TypeFor[time.Time]()

func (w *walk) value(v reflect.Value) *flaw {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return w.value(v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			return w.time(v.Interface().(time.Time))
		}
		return w.fields(v)
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); w.bounds != nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return &flaw{text: "is not a number"}
		}
	case reflect.String:
		return w.text(v.Len())
	case reflect.Slice, reflect.Array:
		return w.list(v)
	case reflect.Map:
		return w.entries(v)
	}
	return nil
}

func (w *walk) time(t time.Time) *flaw {
	if y := t.Year(); w.bounds != nil && (y < 0 || y > 9999) {
		return &flaw{text: fmt.Sprintf("is in the year %d", y)}
	}
	return nil
}

func (w *walk) fields(v reflect.Value) *flaw {
	t := v.Type()
	for i := range v.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if f := w.value(v.Field(i)); f != nil {
			if t.Field(i).Anonymous { // its fields are those of v
				return f
			}
			return f.in(".%s", t.Field(i).Name)
		}
	}
	return nil
}

func (w *walk) list(v reflect.Value) *flaw {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return w.text(v.Len())
	}
	if f := w.count(v.Type().Elem(), v.Len()); f != nil || plain(v.Type().Elem()) {
		return f
	}
	for i := range v.Len() {
		if f := w.entry(v.Index(i)); f != nil {
			return f.in("[%d]", i)
		}
	}
	return nil
}

func (w *walk) entries(v reflect.Value) *flaw {
	if f := w.count(v.Type().Elem(), v.Len()); f != nil {
		return f
	}
	for it := v.MapRange(); it.Next(); {
		f := w.value(it.Key())
		if f == nil {
			f = w.entry(it.Value())
		}
		if f != nil {
			return f.in("[%.80q]", fmt.Sprint(it.Key()))
		}
	}
	return nil
}

// entry rejects null in place of an object.
func (w *walk) entry(v reflect.Value) *flaw {
	if v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
		return &flaw{text: "is null; remove it"}
	}
	return w.value(v)
}

func (w *walk) count(of reflect.Type, n int) *flaw {
	if w.bounds == nil {
		return nil
	}
	most, special := w.caps[of]
	if !special {
		most = w.bounds.Entries
	}
	if n > most {
		return &flaw{text: fmt.Sprintf("has %d entries; at most %d are taken", n, most)}
	}
	return w.spend(n * entryCost)
}

func (w *walk) text(n int) *flaw {
	if w.bounds != nil && n > w.bounds.Text {
		return &flaw{text: fmt.Sprintf("has %d bytes; at most %d are taken", n, w.bounds.Text)}
	}
	return w.spend(n)
}

func (w *walk) spend(n int) *flaw {
	if w.spent += n; w.bounds != nil && w.spent > w.bounds.Total {
		return &flaw{text: fmt.Sprintf("is where the whole gets larger than the %d bytes that are taken", w.bounds.Total)}
	}
	return nil
}

// CutText returns s, shortened to at most limit bytes.
func CutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// plain reports whether values of a type contain no texts and no other values.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.String, reflect.Slice, reflect.Array, reflect.Map, reflect.Float32, reflect.Float64:
		return false
	}
	return true
}
