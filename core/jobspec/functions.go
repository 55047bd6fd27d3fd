// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-cty-funcs/cidr"
	"github.com/hashicorp/go-cty-funcs/collection"
	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/hashicorp/go-cty-funcs/filesystem"
	"github.com/hashicorp/go-cty-funcs/uuid"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/drover-project/drover/sdk/errdefs"
)

// functions returns the functions of job files, which charge b. Without allowFS,
// functions that read the file system fail, because a server must not reveal its files
// to a client.
func functions(b *budget, allowFS bool, baseDir string) map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc,
		"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

		"chomp": stdlib.ChompFunc, "format": boundedResult(bounded(stdlib.FormatFunc), formatted), "formatlist": boundedResult(bounded(stdlib.FormatListFunc), formatted), "indent": atMost(boundedResult(stdlib.IndentFunc, indented), 0, 9999),
		"join": boundedResult(stdlib.JoinFunc, joined), "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"regex_replace": boundedResult(stdlib.RegexReplaceFunc, replacedByPattern), "replace": boundedResult(stdlib.ReplaceFunc, replaced), "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

		"chunklist": stdlib.ChunklistFunc, "coalesce": collection.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc,
		"flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc, "length": length, "lookup": stdlib.LookupFunc,
		"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct": boundedProduct(stdlib.SetProductFunc), "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
		"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"base64decode": encoding.Base64DecodeFunc, "base64encode": encoding.Base64EncodeFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "urlencode": encoding.URLEncodeFunc,

		"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,

		"bcrypt": atMost(crypto.BcryptFunc, 1, 14), "md5": crypto.Md5Func, "rsadecrypt": crypto.RsaDecryptFunc, "sha1": crypto.Sha1Func,
		"sha256": crypto.Sha256Func, "sha512": crypto.Sha512Func, "uuidv4": uuid.V4Func, "uuidv5": uuid.V5Func,

		"cidrhost": cidr.HostFunc, "cidrnetmask": cidr.NetmaskFunc, "cidrsubnet": cidr.SubnetFunc, "cidrsubnets": cidr.SubnetsFunc,

		"can": tryfunc.CanFunc, "convert": typeexpr.ConvertFunc, "try": tryfunc.TryFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber": stdlib.MakeToFunc(cty.Number), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	}
	maps.Copy(all, dataFunctions())
	for name, f := range map[string]function.Function{
		"abspath": filesystem.AbsPathFunc, "basename": filesystem.BasenameFunc, "dirname": filesystem.DirnameFunc,
		"file": filesystem.MakeFileFunc(baseDir, false), "filebase64": filesystem.MakeFileFunc(baseDir, true), "fileexists": filesystem.MakeFileExistsFunc(baseDir),
		"fileset": filesystem.MakeFileSetFunc(baseDir), "pathexpand": filesystem.PathExpandFunc,
	} {
		pure := name == "basename" || name == "dirname"
		if !allowFS && !pure {
			f = refused(f, name)
		}
		all[name] = f
	}
	for name, f := range all {
		all[name] = b.pays(name, f)
	}
	all["templatefile"] = templateFile(b, baseDir, maps.Clone(all))
	if !allowFS {
		all["templatefile"] = refused(all["templatefile"], "templatefile")
	}
	return all
}

// refused returns a function that fails at every call.
func refused(f function.Function, name string) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func([]cty.Value) (cty.Type, error) {
			return cty.NilType, errdefs.PermissionDeniedf("function %q is disabled here because it reads files; save the job file on your own machine, or parse it there (job run -output) and send the result", name)
		},
	})
}

var (
	formatWidths = regexp.MustCompile(`[0-9]{4,}`)
	formatVerbs  = regexp.MustCompile(`%(?:[^a-zA-Z%\[]*(?:\[([0-9]+)\])?)*([a-zA-Z%])`)
)

// numbered returns the arguments of a format that are printed as numbers.
func numbered(format string, args []cty.Value) (out []cty.Value) {
	next := 0
	for _, m := range formatVerbs.FindAllStringSubmatch(format, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			next = n - 1
		}
		if m[2] == "%" {
			continue
		}
		if strings.Contains("bdoxXeEfgG", m[2]) && next >= 0 && next < len(args) {
			out = append(out, args[next])
		}
		next++
	}
	return out
}

// endlessText reports whether a value is the text of an endless number, or a list with one.
func endlessText(v cty.Value) bool {
	if known(v) && v.CanIterateElements() {
		for it := v.ElementIterator(); it.Next(); {
			if _, e := it.Element(); endlessText(e) {
				return true
			}
		}
	}
	return bitsOf(v) > maxExponent
}

// bounded rejects formats whose width makes the result huge, and texts that would be
// printed as endless numbers.
func bounded(f function.Function) function.Function {
	return wrapped(f, func(args []cty.Value) error {
		if len(args) > 0 && args[0].Type() == cty.String && args[0].IsKnown() && !args[0].IsNull() {
			for _, s := range formatWidths.FindAllString(args[0].AsString(), -1) {
				if n, err := strconv.Atoi(s); err != nil || n > 9999 {
					return errdefs.InvalidArgumentf("the format has a number over 9999, which would make too long a text")
				}
			}
			if slices.ContainsFunc(numbered(args[0].AsString(), args[1:]), endlessText) {
				return errdefs.InvalidArgumentf("a number has more than %d bits before or after the point", maxExponent)
			}
		}
		return nil
	})
}

// boundedProduct rejects products with more than 100,000 elements.
func boundedProduct(f function.Function) function.Function {
	return wrapped(f, func(args []cty.Value) error {
		n := 1
		for _, a := range args {
			if a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
				if n *= max(a.LengthInt(), 1); n > 100_000 {
					return errdefs.InvalidArgumentf("the product has more than 100000 elements; use smaller sets")
				}
			}
		}
		return nil
	})
}

func wrapped(f function.Function, check func([]cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}
