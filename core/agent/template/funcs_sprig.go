// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"reflect"

	"github.com/Masterminds/sprig/v3"

	"github.com/drover-project/drover/sdk/errdefs"
)

// sprigPrefix is the prefix of sprig's functions in templates.
const sprigPrefix = "sprig_"

// sprigDenied are functions that show the agent's own environment or network, or that
// generate keys: each run of a template would generate others.
var sprigDenied = map[string]string{
	"env": "it reads the environment of the agent; use env", "expandenv": "it reads the environment of the agent; use env",
	"getHostByName": "templates do not ask name servers",
	"genPrivateKey": keysWhy, "derivePassword": keysWhy, "buildCustomCert": keysWhy, "genCA": keysWhy, "genCAWithKey": keysWhy,
	"genSelfSignedCert": keysWhy, "genSelfSignedCertWithKey": keysWhy, "genSignedCert": keysWhy, "genSignedCertWithKey": keysWhy,
}

const keysWhy = "keys are not made in templates; keep them in variables"

// sprigFunctions are sprig's functions, named sprig_NAME, each with bounds.
func sprigFunctions() map[string]function {
	bounds := sprigBounds()
	out := map[string]function{}
	for name, fn := range sprig.TxtFuncMap() {
		if t := reflect.TypeOf(fn); t.NumOut() == 0 {
			continue
		}
		out[sprigPrefix+name] = function{fn: fn, before: bounds[name], deny: sprigDenied[name]}
	}
	for name, f := range sprigReplaced() {
		out[sprigPrefix+name] = f
	}
	return out
}

// sprigReplaced are our versions of functions whose work sprig does not bound.
func sprigReplaced() map[string]function {
	replace := func(expand bool) function {
		return function{make: func(c *compiled) any {
			return func(expr, s, to string) (string, error) { return c.run.regexReplace(expr, s, to, expand) }
		}}
	}
	out := map[string]function{}
	for _, must := range []bool{false, true} {
		for name, f := range map[string]function{
			"regexMatch": {fn: regexMatch}, "regexFind": {fn: regexFind}, "regexFindAll": {fn: regexFindAll}, "regexSplit": {fn: regexSplit},
			"regexReplaceAll": replace(true), "regexReplaceAllLiteral": replace(false),
		} {
			if must {
				name = "mustR" + name[1:]
			}
			out[name] = f
		}
	}
	return out
}

// sprigBounds refuses arguments that would make sprig take too much memory or time.
func sprigBounds() map[string]func(*bound) error {
	out := map[string]func(*bound) error{
		"repeat":   func(b *bound) error { return b.run.product(b.args[0].Int(), int64(b.args[1].Len()), 0) },
		"indent":   indentFits,
		"nindent":  indentFits,
		"replace":  replaceFits(0, 1, 2),
		"wrap":     func(b *bound) error { return wrapFits(b, 1, b.args[1].String()) },
		"wrapWith": func(b *bound) error { return wrapFits(b, b.args[1].Len(), b.args[2].String()) },
		"join":     joinFits,
		"split":    splitFits, "splitList": splitFits, "splitn": func(b *bound) error { return piecesFit(b.args[0], b.args[2]) },
		"until":     func(b *bound) error { return elements(abs(b.args[0].Int())) },
		"untilStep": func(b *bound) error { return countFits(b.args) },
		"seq":       func(b *bound) error { return countFits(expand(b.args[0])) },
		"fromJson":  parseFits(4), "mustFromJson": parseFits(4),
		"toPrettyJson": prettyFits, "mustToPrettyJson": prettyFits,
		"randBytes": lengthFits, "randAlpha": lengthFits, "randAlphaNum": lengthFits, "randAscii": lengthFits, "randNumeric": lengthFits,
	}
	for _, name := range []string{"uniq", "mustUniq"} {
		out[name] = func(b *bound) error { return pairsFit(b.args[0], b.args[0]) }
	}
	for _, name := range []string{"without", "mustWithout"} {
		out[name] = func(b *bound) error { return pairsFit(b.args[0], b.args[1]) }
	}
	for _, name := range []string{"addf", "subf", "mulf", "divf"} {
		out[name] = func(b *bound) error {
			if n := b.args[len(b.args)-1].Len(); n > 64 {
				return errdefs.InvalidArgumentf("%d numbers at once; at most 64 are taken", n)
			}
			return nil
		}
	}
	return out
}

func expand(list reflect.Value) []reflect.Value {
	out := make([]reflect.Value, list.Len())
	for i := range out {
		out[i] = list.Index(i)
	}
	return out
}

// countFits bounds functions that count from one number to another in steps of at least
// one.
func countFits(bounds []reflect.Value) error {
	for _, v := range bounds {
		if err := elements(abs(v.Int())); err != nil {
			return err
		}
	}
	return nil
}

func lengthFits(b *bound) error { return b.run.room(abs(b.args[0].Int())) }

func wrapFits(b *bound, sep int, text string) error {
	if len(text) > maxSource {
		return errdefs.ResourceExhaustedf("a text of %d bytes is too long to be wrapped; at most %d are", len(text), maxSource)
	}
	width := max(b.args[0].Int(), 1)
	return b.run.product(int64(len(text))/width+1, int64(sep), int64(len(text)))
}

// pairsFit is for functions that compare each element of one list with each of another.
func pairsFit(a, b reflect.Value) error {
	lengths := int64(1)
	for _, v := range []reflect.Value{a, b} {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
			lengths *= int64(max(v.Len(), 1))
		}
	}
	if lengths > 4_000_000 {
		return errdefs.ResourceExhaustedf("the lists are too long to compare each element with each (%d pairs)", lengths)
	}
	return nil
}
