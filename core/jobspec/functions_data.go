// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of YAML in a job file, whose aliases repeat the values to which they refer.
const (
	maxYAMLNodes = 100_000
	maxYAMLDepth = maxNesting
)

// dataFunctions are functions for which no library has limits.
func dataFunctions() map[string]function.Function {
	return map[string]function.Function{
		"base64gzip": base64gzip,
		"index":      index,
		"timestamp":  timestamp,
		"yamldecode": wrapped(ctyyaml.YAMLDecodeFunc, yamlFits),
		"yamlencode": ctyyaml.YAMLEncodeFunc,
		"consul_key": unavailable("consul_key", "Drover reads no Consul while it parses a job file; use a variable of the job file, or a template with nomadVar"),
		"vault":      unavailable("vault", "Drover reads no Vault while it parses a job file; use a variable of the job file, or a template with nomadVar"),
	}
}

// length counts the elements of a collection, the attributes of an object such as { a = 1 }, or,
// as the reference's documents have it in the conditions of variables, the characters of a string.
var length = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if t := args[0].Type(); t == cty.String || t.IsObjectType() {
			return cty.Number, nil
		}
		return stdlib.LengthFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch t := args[0].Type(); {
		case t == cty.String:
			return stdlib.Strlen(args[0])
		case t.IsObjectType():
			return cty.NumberIntVal(int64(args[0].LengthInt())), nil
		}
		return stdlib.Length(args[0])
	},
})

// timestamp returns the current time in UTC in RFC 3339 format.
var timestamp = function.New(&function.Spec{
	Type: function.StaticReturnType(cty.String),
	Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
		return cty.StringVal(time.Now().UTC().Format(time.RFC3339)), nil
	},
})

// base64gzip compresses a string and encodes it as base64.
var base64gzip = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, args[0].AsString()); err != nil {
			return cty.NilVal, fmt.Errorf("compress: %w", err)
		}
		if err := w.Close(); err != nil {
			return cty.NilVal, fmt.Errorf("compress: %w", err)
		}
		return cty.StringVal(base64.StdEncoding.EncodeToString(b.Bytes())), nil
	},
})

// index returns an element by its key. If the collection is a list and the key is not
// a number, it returns the position of the element that equals it, as the reference
// documents.
var index = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "collection", Type: cty.DynamicPseudoType}, {Name: "key", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if finds(args) {
			return cty.Number, nil
		}
		return stdlib.IndexFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !finds(args) {
			return stdlib.IndexFunc.Call(args)
		}
		n := int64(0)
		for it := args[0].ElementIterator(); it.Next(); n++ {
			if _, v := it.Element(); v.RawEquals(args[1]) {
				return cty.NumberIntVal(n), nil
			}
		}
		return cty.NilVal, function.NewArgErrorf(1, "the list has no such element")
	},
})

func finds(args []cty.Value) bool {
	list := args[0].Type()
	return (list.IsListType() || list.IsTupleType()) && args[1].Type() != cty.Number && args[1].IsWhollyKnown() && args[0].IsKnown() && !args[0].IsNull()
}

func unavailable(name, why string) function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "args", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true},
		Type: func([]cty.Value) (cty.Type, error) {
			return cty.NilType, errdefs.Unimplementedf("function %q cannot be used: %s", name, why)
		},
	})
}

// atMost returns f, rejecting calls whose argument i is given and is a number above
// most.
func atMost(f function.Function, i int, most int64) function.Function {
	return wrapped(f, func(args []cty.Value) error {
		if len(args) <= i || args[i].Type() != cty.Number || !args[i].IsKnown() || args[i].IsNull() {
			return nil
		}
		if args[i].GreaterThan(cty.NumberIntVal(most)).True() {
			return function.NewArgErrorf(i, "must not be over %d", most)
		}
		return nil
	})
}

// yamlFits rejects YAML whose aliases or depth would make it huge.
func yamlFits(args []cty.Value) error {
	if !args[0].IsKnown() || args[0].IsNull() {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(args[0].AsString()), &doc); err != nil {
		return errdefs.New(errdefs.InvalidArgument, err)
	}
	left := maxYAMLNodes
	return countYAML(&doc, &left, 0)
}

func countYAML(n *yaml.Node, left *int, depth int) error {
	if *left--; *left < 0 || depth > maxYAMLDepth {
		return errdefs.InvalidArgumentf("the YAML has more than %d values, aliases counted as what they name, or is nested more than %d deep", maxYAMLNodes, maxYAMLDepth)
	}
	if n.Kind == yaml.AliasNode {
		return countYAML(n.Alias, left, depth+1)
	}
	for _, c := range n.Content {
		if err := countYAML(c, left, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// templateFile returns the function templatefile(PATH, VARS): it evaluates a file in
// HCL's template syntax with the given variables and with functions, except itself.
func templateFile(b *budget, baseDir string, within map[string]function.Function) function.Function {
	evaluate := func(args []cty.Value) (cty.Value, error) {
		name, vars := args[0].AsString(), args[1]
		expr, err := parseTemplateFile(baseDir, name)
		if err != nil {
			return cty.NilVal, err
		}
		ctx := &hcl.EvalContext{Functions: within, Variables: map[string]cty.Value{}}
		if t := vars.Type(); !t.IsObjectType() && !t.IsMapType() {
			return cty.NilVal, function.NewArgErrorf(1, "the variables must be an object or a map")
		}
		for it := vars.ElementIterator(); it.Next(); {
			k, v := it.Element()
			ctx.Variables[k.AsString()] = v
		}
		b.meter(expr)
		v, diags := expr.Value(ctx)
		if diags.HasErrors() {
			return cty.NilVal, diags
		}
		if valueSize(v, maxValueBytes) > maxValueBytes {
			return cty.NilVal, errdefs.InvalidArgumentf("the template %q makes more than %d bytes", name, maxValueBytes)
		}
		return v, nil
	}
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() || !args[1].IsWhollyKnown() {
				return cty.DynamicPseudoType, nil
			}
			v, err := evaluate(args)
			return v.Type(), err
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return evaluate(args) },
	})
}

func parseTemplateFile(baseDir, name string) (hclsyntax.Expression, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(baseDir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("templatefile: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, errdefs.InvalidArgumentf("templatefile: %q is not a regular file of at most %d bytes", name, maxFileBytes)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("templatefile: %w", err)
	}
	if diags := checkTemplateBounds(src, name); diags.HasErrors() {
		return nil, diags
	}
	expr, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	return expr, nil
}
