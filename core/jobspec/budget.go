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

// What the evaluation of one job file may cost. A value counts each time that it is
// the result of a function, part of a text or an element of a loop.
const (
	maxSteps = 200_000  // evaluations of the body of a for expression or a splat
	maxBytes = 64 << 20 // of all values that are made
)

// checkEvery is after how many steps the caller's context is looked at.
const checkEvery = 256

// budget bounds the evaluation of the expressions of one job file. It is not safe
// for use by several goroutines.
type budget struct {
	ctx          context.Context
	steps, bytes int // spent so far
}

// exhausted ends the evaluation as a panic that parseHCL recovers: an expression
// that only fails would let the loops around it go on.
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

// charge counts the bytes of a value that was made.
func (b *budget) charge(v cty.Value, at hcl.Range) {
	b.spend(valueSize(v, maxBytes-b.bytes), at)
}

// chargeReading counts the bytes of a value that a function reads: much less, since
// it only costs time.
func (b *budget) chargeReading(v cty.Value, at hcl.Range) {
	b.spend(valueSize(v, 8*(maxBytes-b.bytes))/8, at)
}

func (b *budget) spend(n int, at hcl.Range) {
	b.bytes += n
	if b.bytes > maxBytes {
		b.exhaust(at, "Values too large", fmt.Sprintf("The values of a file may have %d bytes in all, counted wherever one is made of others.", maxBytes))
	}
}

func (b *budget) checkTime(at hcl.Range) {
	if b.ctx.Err() != nil {
		b.exhaust(at, "Evaluation given up", "The time for reading the file is over, or the caller is gone: "+b.ctx.Err().Error()+".")
	}
}

func (b *budget) exhaust(at hcl.Range, summary, detail string) {
	panic(exhausted{&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}})
}

// recoverExhausted turns the end of the budget into a message. It is deferred.
func recoverExhausted(diags *hcl.Diagnostics) {
	switch r := recover().(type) {
	case nil:
	case exhausted:
		*diags = append(*diags, r.diag)
	default:
		panic(r)
	}
}

// metered is an expression that is paid for at each evaluation. To whoever walks the
// syntax it is the expression in parentheses.
type metered struct {
	*hclsyntax.ParenthesesExpr
	budget *budget
	loop   bool // counts as a step
}

// Value evaluates the expression and pays for the result.
func (m *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	at := m.StartRange()
	if m.loop {
		m.budget.step(at)
	}
	v, diags := m.ParenthesesExpr.Value(ctx)
	m.budget.charge(v, at)
	return v, diags
}

// meter makes everything below a node that repeats or joins values pay.
func (b *budget) meter(root hclsyntax.Node) {
	wrap := func(e *hclsyntax.Expression, loop bool) {
		if *e != nil {
			*e = &metered{&hclsyntax.ParenthesesExpr{Expression: *e, SrcRange: (*e).Range()}, b, loop}
		}
	}
	_ = hclsyntax.VisitAll(root, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
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

// pays returns f paying for its arguments before, and for its result after a call.
func (b *budget) pays(name string, f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(args) },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			at := hcl.Range{Filename: name + "()"}
			b.checkTime(at)
			for _, a := range args {
				b.chargeReading(a, at)
			}
			v, err := f.Call(args)
			if err == nil {
				b.charge(v, at)
			}
			return v, err
		},
	})
}

// boundedResult refuses calls of a function whose result, as estimated from its
// arguments, is too large to be made and charged afterwards.
func boundedResult(f function.Function, estimate func(args []cty.Value) int) function.Function {
	return wrapped(f, func(args []cty.Value) error {
		if estimate(args) > maxBytes {
			return errdefs.InvalidArgumentf("the result could have more than %d bytes; use shorter arguments", maxBytes)
		}
		return nil
	})
}

// joined estimates join: the separator stands between all elements.
func joined(args []cty.Value) int { return textLen(args[0]) * elements(args[1:]) }

// replaced estimates replace: the text may consist of what is replaced.
func replaced(args []cty.Value) int {
	return (textLen(args[0])/max(textLen(args[1]), 1) + 1) * textLen(args[2])
}

// replacedByPattern estimates regex_replace: a pattern may match everywhere, and the
// replacement may repeat what it matched.
func replacedByPattern(args []cty.Value) int { return (textLen(args[0]) + 1) * textLen(args[2]) }

// formatted estimates format and formatlist: each verb may show the largest argument,
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

// indented estimates indent: the spaces stand at each line.
func indented(args []cty.Value) int {
	if !known(args[0]) || !known(args[1]) || args[1].Type() != cty.String {
		return 0
	}
	spaces, _ := args[0].AsBigFloat().Int64()
	return int(spaces) * strings.Count(args[1].AsString(), "\n")
}

func known(v cty.Value) bool { return v.IsKnown() && !v.IsNull() && !v.IsMarked() }

// textLen is the bytes of a text, 0 of anything else.
func textLen(v cty.Value) int {
	if !known(v) || v.Type() != cty.String {
		return 0
	}
	return len(v.AsString())
}

// elements is how many elements the lists among values have in all.
func elements(values []cty.Value) (n int) {
	for _, v := range values {
		if known(v) && v.CanIterateElements() {
			n += v.LengthInt()
		}
	}
	return n
}
