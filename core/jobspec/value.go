// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"math/big"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

var durationType = reflect.TypeFor[Duration]()

// decodeExpr evaluates e and stores it into dst; null leaves dst unset.
func (d *decoder) decodeExpr(e hcl.Expression, ctx *hcl.EvalContext, dst reflect.Value) {
	d.budget.checkTime(e.Range())
	v, diags := e.Value(ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || v.IsNull() {
		return
	}
	v, _ = v.UnmarkDeep()
	if !v.IsWhollyKnown() {
		d.errorf(e.Range(), "Unknown value", "The value is not known before the job runs.")
		return
	}
	d.store(v, dst, e.Range())
}

// store converts v to the type of dst.
func (d *decoder) store(v cty.Value, dst reflect.Value, rng hcl.Range) {
	if dst.Kind() == reflect.Pointer {
		p := reflect.New(dst.Type().Elem())
		d.store(v, p.Elem(), rng)
		dst.Set(p)
		return
	}
	switch {
	case dst.Type() == durationType:
		d.storeDuration(v, dst, rng)
		return
	case dst.Kind() == reflect.Interface:
		if x := plain(v); x != nil {
			dst.Set(reflect.ValueOf(x))
		}
		return
	case dst.Kind() == reflect.Map && dst.Type().Elem().Kind() == reflect.Interface:
		m, ok := plain(v).(map[string]any)
		if !ok {
			d.errorf(rng, "Unsuitable value type", "Unsuitable value: a map of names to values is required.")
			return
		}
		dst.Set(reflect.ValueOf(m))
		return
	}
	want, ok := ctyTypeOf(dst.Type())
	if !ok {
		d.errorf(rng, "Unsuitable value type", "Unsuitable value: this argument cannot be set by an expression.")
		return
	}
	if want.IsMapType() && want.ElementType().IsListType() {
		v = wrapLists(v)
	}
	converted, err := convert.Convert(v, want)
	if err == nil {
		err = gocty.FromCtyValue(converted, dst.Addr().Interface())
	}
	if err != nil {
		d.errorf(rng, "Unsuitable value type", "Unsuitable value: %s", err)
	}
}

// wrapLists makes { a = "x" } equivalent to { a = ["x"] }.
func wrapLists(v cty.Value) cty.Value {
	if v.IsNull() || !v.CanIterateElements() || !(v.Type().IsObjectType() || v.Type().IsMapType()) {
		return v
	}
	out := map[string]cty.Value{}
	for k, e := range v.AsValueMap() {
		if e.Type().IsPrimitiveType() {
			e = cty.TupleVal([]cty.Value{e})
		}
		out[k] = e
	}
	return cty.ObjectVal(out)
}

// storeDuration accepts text such as "30s" or a number of nanoseconds.
func (d *decoder) storeDuration(v cty.Value, dst reflect.Value, rng hcl.Range) {
	if v.Type() == cty.Number {
		n, acc := v.AsBigFloat().Int64()
		if acc != big.Exact {
			d.errorf(rng, "Invalid duration", "A duration given as a number must be a whole number of nanoseconds.")
			return
		}
		dst.SetInt(n)
		return
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		d.errorf(rng, "Unsuitable value type", "Unsuitable duration value: %s", err)
		return
	}
	parsed, err := time.ParseDuration(s.AsString())
	if err != nil {
		d.errorf(rng, "Unsuitable duration value", "Unsuitable duration value: %s. Write a number with a unit, such as \"30s\" or \"5m\".", err)
		return
	}
	dst.SetInt(int64(parsed))
}

func ctyTypeOf(t reflect.Type) (cty.Type, bool) {
	switch t.Kind() {
	case reflect.String:
		return cty.String, true
	case reflect.Bool:
		return cty.Bool, true
	case reflect.Int, reflect.Int8, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return cty.Number, true
	case reflect.Slice:
		e, ok := ctyTypeOf(t.Elem())
		return cty.List(e), ok
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return cty.DynamicPseudoType, false
		}
		e, ok := ctyTypeOf(t.Elem())
		return cty.Map(e), ok
	}
	return cty.DynamicPseudoType, false
}

// plain converts a value to JSON types: strings, bools, int or float64, slices and
// maps.
func plain(v cty.Value) any {
	if v.IsNull() {
		return nil
	}
	t := v.Type()
	switch {
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		f := v.AsBigFloat()
		if n, acc := f.Int64(); acc == big.Exact {
			return int(n)
		}
		n, _ := f.Float64()
		return n
	case t.IsMapType() || t.IsObjectType():
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out[k.AsString()] = plain(e)
		}
		return out
	case v.CanIterateElements():
		out := make([]any, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out = append(out, plain(e))
		}
		return out
	}
	return nil
}
