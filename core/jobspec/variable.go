// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Prefixes of environment variables that set variables of a job file. The second has
// precedence.
var envPrefixes = []string{"NOMAD_VAR_", "DROVER_VAR_"}

// variable is one declared variable and its value, cty.NilVal until it has one.
type variable struct {
	block *hclsyntax.Block
	name  string
	typ   cty.Type
	value cty.Value
	wrong bool // a value was given that cannot be used, which an error says
}

// shortVariables converts variables { a = 1 } to blocks of one variable each.
func shortVariables(b *hclsyntax.Block) []*hclsyntax.Block {
	var out []*hclsyntax.Block
	for _, a := range sortedAttributes(b.Body) {
		value := *a
		value.Name = "default"
		out = append(out, &hclsyntax.Block{
			Type: "variable", Labels: []string{a.Name}, TypeRange: a.NameRange,
			LabelRanges: []hcl.Range{a.NameRange}, OpenBraceRange: a.NameRange,
			Body: &hclsyntax.Body{Attributes: hclsyntax.Attributes{"default": &value}, SrcRange: a.SrcRange, EndRange: a.SrcRange},
		})
	}
	return out
}

// defineVariables declares the variables, sets their values (default, then
// environment, files and arguments) and validates them.
func (d *decoder) defineVariables(blocks []*hclsyntax.Block, opts Options, ctx *hcl.EvalContext) {
	declared := map[string]*variable{}
	var order []*variable
	for _, b := range blocks {
		if len(b.Labels) != 1 {
			d.errorf(b.DefRange(), "Missing name for variable", `Write variable "NAME" { ... }.`)
			continue
		}
		if other := declared[b.Labels[0]]; other != nil {
			d.errorf(b.DefRange(), "Duplicate variable", "Duplicate %s variable definition found; the first is at %s.", b.Labels[0], other.block.DefRange())
			continue
		}
		v := d.declare(b, ctx)
		declared[v.name] = v
		order = append(order, v)
	}
	d.setFromEnv(declared, opts.Env, ctx)
	for _, f := range opts.VarFiles {
		d.setFromFile(declared, f, opts.IgnoreUndeclared, ctx)
	}
	d.setFromArguments(declared, opts.Vars, opts.IgnoreUndeclared, ctx)
	values := map[string]cty.Value{}
	for _, v := range order {
		if v.value == cty.NilVal && v.wrong {
			continue
		}
		if v.value == cty.NilVal {
			d.errorf(v.block.DefRange(), "Unset variable "+quoted(v.name), "A used variable must be set or have a default value; set it with -var '%s=VALUE', a -var-file or the environment variable %s%s.", v.name, envPrefixes[0], v.name)
			continue
		}
		values[v.name] = v.value
	}
	ctx.Variables["var"] = cty.ObjectVal(values)
	for _, v := range order {
		if v.value != cty.NilVal {
			d.checkValidations(v, ctx)
		}
	}
}

func quoted(s string) string { return `"` + s + `"` }

// declare decodes type and default of a variable block.
func (d *decoder) declare(b *hclsyntax.Block, ctx *hcl.EvalContext) *variable {
	v := &variable{block: b, name: b.Labels[0], typ: cty.DynamicPseudoType}
	for _, a := range sortedAttributes(b.Body) {
		switch a.Name {
		case "type":
			typ, diags := typeexpr.TypeConstraint(a.Expr)
			d.diags = append(d.diags, diags...)
			if !diags.HasErrors() {
				v.typ = typ
			}
		case "default", "description", "sensitive":
		default:
			d.errorf(a.NameRange, "Unsupported argument", "An argument named %q is not expected here.", a.Name)
		}
	}
	for _, nested := range b.Body.Blocks {
		if nested.Type != "validation" {
			d.errorf(nested.DefRange(), "Unsupported block type", "Blocks of type %q are not expected here.", nested.Type)
		}
	}
	if a := b.Body.Attributes["default"]; a != nil {
		v.wrong = true
		value, diags := a.Expr.Value(&hcl.EvalContext{Functions: ctx.Functions})
		d.diags = append(d.diags, diags...)
		if !diags.HasErrors() {
			d.set(v, value, a.Expr.Range())
		}
	}
	return v
}

func (d *decoder) set(v *variable, value cty.Value, r hcl.Range) {
	v.wrong = true
	tooLarge := valueSize(value, maxValueBytes) > maxValueBytes
	converted, err := value, error(nil)
	if !tooLarge {
		converted, err = convert.Convert(value, v.typ)
	}
	if err != nil {
		d.errorf(r, "Invalid value for variable", "The value of variable %q is not compatible with its type constraint: %s.", v.name, err)
		return
	}
	if tooLarge || valueSize(converted, maxValueBytes) > maxValueBytes {
		d.errorf(r, "Value too large", "The value of variable %q is larger than %d bytes.", v.name, maxValueBytes)
		return
	}
	v.value, v.wrong = converted, false
}

// setFromEnv ignores undeclared variables, because the environment is shared by many
// files.
func (d *decoder) setFromEnv(declared map[string]*variable, env map[string]string, ctx *hcl.EvalContext) {
	for _, prefix := range envPrefixes {
		for _, key := range slices.Sorted(maps.Keys(env)) {
			if name, ok := strings.CutPrefix(key, prefix); ok && declared[name] != nil {
				d.setText(declared[name], env[key], "<environment variable "+key+">", ctx)
			}
		}
	}
}

func (d *decoder) setFromArguments(declared map[string]*variable, vars map[string]string, lenient bool, ctx *hcl.EvalContext) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		source := "<value for var." + name + " from arguments>"
		switch {
		case declared[name] != nil:
			d.setText(declared[name], vars[name], source, ctx)
		case !lenient:
			d.errorf(startOf(source), "Undefined -var variable", "A %q variable was passed in the command line but was not found in known variables. To declare variable %q, place a variable definition block in the job file.", name, name)
		}
	}
}

func startOf(source string) hcl.Range {
	return hcl.Range{Filename: source, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// setText sets a variable from text: as is for strings, otherwise as an expression.
func (d *decoder) setText(v *variable, text, source string, ctx *hcl.EvalContext) {
	v.wrong = true
	if v.typ == cty.String || v.typ == cty.DynamicPseudoType {
		d.set(v, cty.StringVal(text), startOf(source))
		return
	}
	if diags := checkBounds([]byte(text), source); diags.HasErrors() {
		d.diags = append(d.diags, diags...)
		return
	}
	value := cty.NilVal
	expr, diags := hclsyntax.ParseExpression([]byte(text), source, hcl.InitialPos)
	if !diags.HasErrors() {
		d.budget.meter(expr)
		value, diags = expr.Value(&hcl.EvalContext{Functions: ctx.Functions})
	}
	switch {
	case diags.HasErrors() && v.typ.IsPrimitiveType():
		d.errorf(startOf(source), "Invalid value for variable", "The value %.100q of variable %q is not a %s.", text, v.name, v.typ.FriendlyName())
	case diags.HasErrors():
		d.diags = append(d.diags, diags...)
	default:
		d.diags = append(d.diags, diags...)
		d.set(v, value, startOf(source))
	}
}

func (d *decoder) setFromFile(declared map[string]*variable, f VarFile, lenient bool, ctx *hcl.EvalContext) {
	attrs, diags := varFileAttributes(f)
	d.diags = append(d.diags, diags...)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		if declared[name] == nil && lenient {
			continue
		}
		if declared[name] == nil {
			d.errorf(a.NameRange, "Undefined variable", "A %q variable was set but was not found in known variables. To declare variable %q, place a variable definition block in the job file.", name, name)
			continue
		}
		if e, ok := a.Expr.(hclsyntax.Expression); ok {
			d.budget.meter(e)
		}
		declared[name].wrong = true
		value, diags := a.Expr.Value(&hcl.EvalContext{Functions: ctx.Functions})
		d.diags = append(d.diags, diags...)
		if !diags.HasErrors() {
			d.set(declared[name], value, a.Expr.Range())
		}
	}
}

func varFileAttributes(f VarFile) (hcl.Attributes, hcl.Diagnostics) {
	if strings.HasPrefix(strings.TrimSpace(string(f.Content)), "{") {
		if diags := checkBounds(f.Content, f.Name); diags.HasErrors() {
			return nil, diags
		}
		file, diags := hcljson.Parse(f.Content, f.Name)
		if diags.HasErrors() {
			return nil, diags
		}
		return file.Body.JustAttributes()
	}
	body, diags := parseBody(f.Content, f.Name)
	if diags.HasErrors() {
		return nil, diags
	}
	return body.JustAttributes()
}

// checkValidations evaluates the validation blocks of a variable.
func (d *decoder) checkValidations(v *variable, ctx *hcl.EvalContext) {
	for _, b := range v.block.Body.Blocks {
		condition, message := b.Body.Attributes["condition"], b.Body.Attributes["error_message"]
		if condition == nil || message == nil {
			d.errorf(b.DefRange(), "Incomplete validation block", "A validation block needs the arguments condition and error_message.")
			continue
		}
		ok, diags := condition.Expr.Value(ctx)
		text, more := message.Expr.Value(ctx)
		d.diags = append(append(d.diags, diags...), more...)
		if diags.HasErrors() || more.HasErrors() {
			continue
		}
		if ok.IsNull() || !ok.IsKnown() || ok.Type() != cty.Bool || text.IsNull() || !text.IsKnown() || text.Type() != cty.String {
			d.errorf(b.DefRange(), "Invalid validation block", "condition must be true or false, and error_message must be a string.")
			continue
		}
		if ok.False() {
			d.errorf(v.block.DefRange(), "Invalid value for variable", "%s\n\nThis was checked by the validation rule at %s.", text.AsString(), b.DefRange())
		}
	}
}

// defineLocals evaluates locals in the order of their dependencies.
func (d *decoder) defineLocals(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) {
	pending := map[string]*hclsyntax.Attribute{}
	for _, b := range blocks {
		for _, a := range sortedAttributes(b.Body) {
			if other := pending[a.Name]; other != nil {
				d.errorf(a.NameRange, "Duplicate value in locals", "Duplicate %s definition found; the first is at %s.", a.Name, other.NameRange)
			}
			pending[a.Name] = a
		}
	}
	done := map[string]cty.Value{}
	for len(pending) > 0 {
		progress := false
		for _, name := range slices.Sorted(maps.Keys(pending)) {
			if waitsFor(pending[name].Expr, pending) {
				continue
			}
			ctx.Variables["local"] = cty.ObjectVal(done)
			value, diags := pending[name].Expr.Value(ctx)
			d.diags = append(d.diags, diags...)
			if diags.HasErrors() {
				value = cty.DynamicVal
			}
			if valueSize(value, maxValueBytes) > maxValueBytes {
				d.errorf(pending[name].Expr.Range(), "Value too large", "The value of local.%s is larger than %d bytes.", name, maxValueBytes)
				value = cty.DynamicVal
			}
			done[name] = value
			delete(pending, name)
			progress = true
		}
		if !progress {
			for _, name := range slices.Sorted(maps.Keys(pending)) {
				d.errorf(pending[name].NameRange, "Locals refer to each other", "local.%s depends on itself, directly or through other locals.", name)
			}
			break
		}
	}
	ctx.Variables["local"] = cty.ObjectVal(done)
}

// waitsFor reports whether e refers to a local that has no value yet.
func waitsFor(e hcl.Expression, pending map[string]*hclsyntax.Attribute) bool {
	for _, t := range e.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if step, ok := t[1].(hcl.TraverseAttr); ok && pending[step.Name] != nil {
			return true
		}
	}
	return false
}
