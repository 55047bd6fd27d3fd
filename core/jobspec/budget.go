// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of the evaluation of one job file. A value counts each time it is the result
// of a function, part of a string or an element of a loop.
const (
	maxSteps = 200_000  // evaluations of the body of a for expression or a splat
	maxBytes = 64 << 20 // of all values that are created
)

// checkEvery is the number of steps between checks of the caller's context.
const checkEvery = 256

// budget limits the evaluation of the expressions of one job file. It must not be used
// concurrently.
type budget struct {
	ctx          context.Context
	steps, bytes int // used so far
}

// exhausted aborts the evaluation with a panic that parseHCL recovers: if an
// expression only failed, the loops around it would continue.
type exhausted struct{ diag *hcl.Diagnostic }

func newBudget(ctx context.Context) *budget {
	if ctx == nil {
		ctx = context.Background()
	}
	return &budget{ctx: ctx}
}

// step counts one evaluation in a loop.
func (b *budget) step(at hcl.Range) {
	b.steps++
	if b.steps > maxSteps {
		b.exhaust(at, "Too much to evaluate", fmt.Sprintf("The for expressions and splats of a file may make %d elements in all.", maxSteps))
	}
	if b.steps%checkEvery == 0 {
		b.checkTime(at)
	}
}

// charge subtracts the bytes of a new value from the budget.
func (b *budget) charge(v cty.Value, at hcl.Range) {
	b.spend(valueSize(v, maxBytes-b.bytes), at)
}

// chargeReading counts the bytes of a value that a function reads, at a lower rate,
// since that costs only time.
func (b *budget) chargeReading(v cty.Value, at hcl.Range) {
	b.spend(valueSize(v, 8*(maxBytes-b.bytes))/8, at)
}

func (b *budget) spend(n int, at hcl.Range) {
	b.bytes += n
	if b.bytes > maxBytes {
		b.exhaust(at, "Values too large", fmt.Sprintf("The values of a file may have %d bytes in all, counted wherever one is made of others, and a number %d bits before or after the point.", maxBytes, maxExponent))
	}
}

// checkOperand refuses an operand of arithmetic that is an endless number, or a text that
// would become one.
func (b *budget) checkOperand(v cty.Value, at hcl.Range) {
	if endless(v) || endlessText(v) { // the operator itself reports other values that are not numbers
		b.exhaust(at, "Number too large", fmt.Sprintf("A number may have %d bits before or after the point.", maxExponent))
	}
}

// checkTime ends the evaluation if the caller is gone or its time is over. A nil budget has
// no limit: it is used for blocks whose size the agent has already bounded.
func (b *budget) checkTime(at hcl.Range) {
	if b != nil && b.ctx.Err() != nil {
		b.exhaust(at, "Evaluation given up", "The time for reading the file is over, or the caller is gone: "+b.ctx.Err().Error()+".")
	}
}

func (b *budget) exhaust(at hcl.Range, summary, detail string) {
	panic(exhausted{&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}})
}

// recoverExhausted converts the panic of an exhausted budget to a diagnostic. It must
// be deferred.
func recoverExhausted(diags *hcl.Diagnostics) {
	switch r := recover().(type) {
	case nil:
	case exhausted:
		*diags = append(*diags, r.diag)
	default:
		panic(r)
	}
}

// failExhausted converts the panic of an exhausted budget to the error of a function. It
// must be deferred.
func failExhausted(err *error) {
	switch r := recover().(type) {
	case nil:
	case exhausted:
		*err = errdefs.ResourceExhaustedf("%s: %s", r.diag.Summary, r.diag.Detail)
	default:
		panic(r)
	}
}

// metered is an expression that is charged at each evaluation. To syntax walkers it
// looks like the expression in parentheses.
type metered struct {
	*hclsyntax.ParenthesesExpr
	budget *budget
	loop   bool // also counts as a step
}

// Value evaluates the expression and charges the result.
func (m *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	at := m.StartRange()
	if m.loop {
		m.budget.step(at)
	}
	v, diags := m.ParenthesesExpr.Value(ctx)
	m.budget.charge(v, at)
	return v, diags
}

// operand is an operand of arithmetic or a key, whose value is checked before it is used.
// To syntax walkers it looks like the expression in parentheses.
type operand struct {
	*hclsyntax.ParenthesesExpr
	check func(cty.Value, hcl.Range)
}

// Value evaluates the expression and checks the result.
func (o *operand) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := o.ParenthesesExpr.Value(ctx)
	o.check(v, o.StartRange())
	return v, diags
}

func newOperand(e hclsyntax.Expression, check func(cty.Value, hcl.Range)) *operand {
	return &operand{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, check}
}

// checkKey charges a key for the bits that it has as the index of a list. A text is an
// index or not, whichever the value has that it is applied to.
func (b *budget) checkKey(key cty.Value, at hcl.Range) { b.spend(bitsOf(key)/8, at) }

// meterKeys charges the keys in a traversal.
func (b *budget) meterKeys(t hcl.Traversal) {
	for _, step := range t {
		if i, ok := step.(hcl.TraverseIndex); ok {
			b.checkKey(i.Key, i.SrcRange)
		}
	}
}

// meterArithmetic wraps the operands of an operator on numbers.
func (b *budget) meterArithmetic(op *hclsyntax.Operation, operands ...*hclsyntax.Expression) {
	if op.Type != cty.Number && op.Impl.Params()[0].Type != cty.Number {
		return
	}
	for _, e := range operands {
		*e = newOperand(*e, b.checkOperand)
	}
}

// meter wraps all expressions below a node that repeat or join values, or compute with
// numbers, and refuses endless numbers.
func (b *budget) meter(root hclsyntax.Node) {
	wrap := func(e *hclsyntax.Expression, loop bool) {
		if *e != nil {
			*e = &metered{&hclsyntax.ParenthesesExpr{Expression: *e, SrcRange: (*e).Range()}, b, loop}
		}
	}
	_ = hclsyntax.VisitAll(root, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			if e.Val.Type() == cty.Number { // a text is none yet
				b.checkOperand(e.Val, e.SrcRange)
			}
		case *hclsyntax.BinaryOpExpr:
			b.meterArithmetic(e.Op, &e.LHS, &e.RHS)
		case *hclsyntax.UnaryOpExpr:
			b.meterArithmetic(e.Op, &e.Val)
		case *hclsyntax.IndexExpr:
			e.Key = newOperand(e.Key, b.checkKey)
		case *hclsyntax.ScopeTraversalExpr:
			b.meterKeys(e.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			b.meterKeys(e.Traversal)
		case *hclsyntax.ForExpr:
			wrap(&e.KeyExpr, false)
			wrap(&e.ValExpr, true)
			wrap(&e.CondExpr, true)
		case *hclsyntax.SplatExpr:
			wrap(&e.Each, true)
		case *hclsyntax.TemplateExpr:
			for i := range e.Parts {
				if _, literal := e.Parts[i].(*hclsyntax.LiteralValueExpr); !literal {
					wrap(&e.Parts[i], false)
				}
			}
		}
		return nil
	})
}

// pays returns f with charges for its arguments before, and for its result after each
// call.
func (b *budget) pays(name string, f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(args) },
		Impl: func(args []cty.Value, _ cty.Type) (v cty.Value, err error) {
			defer failExhausted(&err)
			at := hcl.Range{Filename: name + "()"}
			b.checkTime(at)
			for _, a := range args {
				b.chargeReading(a, at)
			}
			v, err = f.Call(args)
			if err == nil {
				b.charge(v, at)
			}
			return v, err
		},
	})
}

// boundedResult rejects calls of a function whose result, as estimated from its
// arguments, would be too large.
func boundedResult(f function.Function, estimate func(args []cty.Value) int) function.Function {
	return wrapped(f, func(args []cty.Value) error {
		if estimate(args) > maxBytes {
			return errdefs.InvalidArgumentf("the result could have more than %d bytes; use shorter arguments", maxBytes)
		}
		return nil
	})
}

// joined estimates join: the separator is between all elements.
func joined(args []cty.Value) int { return textLen(args[0]) * elements(args[1:]) }

// replaced estimates replace: every part of the text may match.
func replaced(args []cty.Value) int {
	return (textLen(args[0])/max(textLen(args[1]), 1) + 1) * textLen(args[2])
}

// replacedByPattern estimates regex_replace: the pattern may match everywhere, and the
// replacement may repeat the match.
func replacedByPattern(args []cty.Value) int { return (textLen(args[0]) + 1) * textLen(args[2]) }

// formatted estimates format and formatlist: each verb may print the largest argument,
// for each element of the longest list.
func formatted(args []cty.Value) int {
	most, times := 0, 1
	for _, a := range args[1:] {
		most = max(most, valueSize(a, maxBytes))
		times = max(times, elements([]cty.Value{a}))
	}
	if known(args[0]) && args[0].Type() == cty.String {
		return strings.Count(args[0].AsString(), "%") * most * times
	}
	return 0
}

// indented estimates indent: the spaces are added to each line.
func indented(args []cty.Value) int {
	if !known(args[0]) || !known(args[1]) || args[1].Type() != cty.String {
		return 0
	}
	spaces, _ := args[0].AsBigFloat().Int64()
	return int(spaces) * strings.Count(args[1].AsString(), "\n")
}

func known(v cty.Value) bool { return v.IsKnown() && !v.IsNull() && !v.IsMarked() }

// textLen returns the length of a string in bytes, 0 for other values.
func textLen(v cty.Value) int {
	if !known(v) || v.Type() != cty.String {
		return 0
	}
	return len(v.AsString())
}

// elements returns the total number of elements of the lists in values.
func elements(values []cty.Value) (n int) {
	for _, v := range values {
		if known(v) && v.CanIterateElements() {
			n += v.LengthInt()
		}
	}
	return n
}
