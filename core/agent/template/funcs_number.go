// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/drover-project/drover/sdk/errdefs"
)

// numberFunctions calculate; the value that is piped in comes last, so
// {{ 10 | subtract 2 }} is 8.
func numberFunctions() map[string]function {
	return map[string]function{
		"add":      {fn: arithmetic("add", func(a, b int64) (int64, error) { return a + b, nil }, func(a, b float64) float64 { return a + b })},
		"subtract": {fn: arithmetic("subtract", func(a, b int64) (int64, error) { return a - b, nil }, func(a, b float64) float64 { return a - b })},
		"multiply": {fn: arithmetic("multiply", func(a, b int64) (int64, error) { return a * b, nil }, func(a, b float64) float64 { return a * b })},
		"divide":   {fn: arithmetic("divide", divide, func(a, b float64) float64 { return a / b })},
		"modulo":   {fn: arithmetic("modulo", modulo, nil)},
		"minimum":  {fn: arithmetic("minimum", func(a, b int64) (int64, error) { return min(a, b), nil }, func(a, b float64) float64 { return min(a, b) })},
		"maximum":  {fn: arithmetic("maximum", func(a, b int64) (int64, error) { return max(a, b), nil }, func(a, b float64) float64 { return max(a, b) })},

		"parseBool": {fn: func(s string) (bool, error) { return parseNumber(s, strconv.ParseBool) }},
		"parseFloat": {fn: func(s string) (float64, error) {
			return parseNumber(s, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		}},
		"parseInt": {fn: func(s string) (int64, error) {
			return parseNumber(s, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
		}},
		"parseUint": {fn: func(s string) (uint64, error) {
			return parseNumber(s, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
		}},
	}
}

// parseNumber reads "" as the zero value.
func parseNumber[T any](s string, parse func(string) (T, error)) (T, error) {
	var v T
	if s == "" {
		return v, nil
	}
	v, err := parse(s)
	if err != nil {
		return v, errdefs.New(errdefs.InvalidArgument, err)
	}
	return v, nil
}

func divide(a, b int64) (int64, error) {
	if b == 0 {
		return 0, errdefs.InvalidArgumentf("divide: %d by zero", a)
	}
	return a / b, nil
}

func modulo(a, b int64) (int64, error) {
	if b == 0 {
		return 0, errdefs.InvalidArgumentf("modulo: %d by zero", a)
	}
	return a % b, nil
}

// arithmetic makes a function of b and a. Two whole numbers give a whole number.
func arithmetic(name string, whole func(a, b int64) (int64, error), broken func(a, b float64) float64) any {
	return func(b, a any) (any, error) {
		ai, af, aWhole, err := number(name, a)
		if err != nil {
			return nil, err
		}
		bi, bf, bWhole, err := number(name, b)
		if err != nil {
			return nil, err
		}
		if aWhole && bWhole {
			return whole(ai, bi)
		}
		if broken == nil {
			return nil, errdefs.InvalidArgumentf("%s: takes whole numbers", name)
		}
		return broken(af, bf), nil
	}
}

func number(name string, v any) (whole int64, broken float64, isWhole bool, err error) {
	rv := reflect.ValueOf(v)
	switch {
	case v == nil:
	case rv.CanInt():
		return rv.Int(), float64(rv.Int()), true, nil
	case rv.CanUint():
		return int64(rv.Uint()), float64(rv.Uint()), true, nil //nolint:gosec // wraps as the arithmetic of templates does
	case rv.CanFloat():
		return 0, rv.Float(), false, nil
	}
	return 0, 0, false, errdefs.New(errdefs.InvalidArgument, fmt.Errorf("%s: a value of type %T is not a number; use parseInt or parseFloat", name, v))
}
