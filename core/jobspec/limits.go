// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Limits of the input, so that no job file can exhaust the process. The parser
// recurses once per nested bracket, unary operator and conditional, and the evaluation
// once per operator and per step of an index or splat.
const (
	maxFileBytes  = 2 << 20
	maxNesting    = 250
	maxRecursives = 20_000  // operators, conditionals, directives, steps of indexes and splats
	maxValueBytes = 8 << 20 // of one local or variable
	maxBlocks     = 20_000  // after the expansion of dynamic blocks
	maxObjects    = 50_000  // in a JSON document
	// maxExponent is the largest exponent, to the base 2, of a number. A number of a few
	// characters can have billions of digits, all of which are made when it becomes text or
	// is added to another.
	maxExponent = 4096
)

// checkBounds scans the tokens of src, without recursion, and rejects nesting that is too
// deep for the recursive parser.
func checkBounds(src []byte, filename string) hcl.Diagnostics {
	if len(src) > maxFileBytes {
		return hcl.Diagnostics{{
			Severity: hcl.DiagError,
			Summary:  "File too large",
			Detail:   fmt.Sprintf("The file has %d bytes; at most %d are read. Move large data into artifacts or templates.", len(src), maxFileBytes),
			Subject:  &hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos},
		}}
	}
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos) // the parser reports the same errors
	return checkTokens(tokens)
}

// checkTemplateBounds is checkBounds for a template file, whose directives are nested
// too.
func checkTemplateBounds(src []byte, filename string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexTemplate(src, filename, hcl.InitialPos)
	return checkTokens(tokens)
}

func checkTokens(tokens hclsyntax.Tokens) hcl.Diagnostics {
	depth, recursives := 0, 0
	before := hclsyntax.TokenNewline
	for _, t := range tokens {
		if recurses(before, t.Type) {
			recursives++
		}
		before = t.Type
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
			hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote:
			depth--
		}
		if depth > maxNesting || recursives > maxRecursives {
			r := t.Range
			return hcl.Diagnostics{{
				Severity: hcl.DiagError,
				Summary:  "Nested too deeply",
				Detail:   fmt.Sprintf("Blocks and expressions may be nested %d deep, with at most %d operators, conditionals, directives and steps of indexes in a file.", maxNesting, maxRecursives),
				Subject:  &r,
			}}
		}
	}
	return nil
}

// recurses reports whether a token, following before, nests an expression one level
// deeper without an open bracket.
func recurses(before, t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion,
		hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenTemplateControl: // it ends before its endif or endfor
		return true
	case hclsyntax.TokenOBrack: // an index, unless it begins a list
		switch before {
		case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenStar, hclsyntax.TokenCQuote,
			hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCParen:
			return true
		}
	}
	return false
}

// endless reports whether a value is a number with more digits than are computed with.
func endless(v cty.Value) bool {
	return known(v) && v.Type() == cty.Number && bitsOf(v) > maxExponent
}

// bitsOf returns how many bits a number, or the text of one, has before or after the point;
// 0 for other values.
func bitsOf(v cty.Value) int {
	if known(v) && v.Type() == cty.String {
		v, _ = convert.Convert(v, cty.Number)
	}
	if v == cty.NilVal || !known(v) || v.Type() != cty.Number {
		return 0
	}
	f := v.AsBigFloat()
	if f.IsInf() {
		return big.MaxExp
	}
	e := f.MantExp(nil)
	return max(e, -e)
}

// valueSize estimates the size of a value in bytes; it stops counting above limit. An
// endless number is larger than any limit.
func valueSize(v cty.Value, limit int) int {
	n := 16
	switch {
	case v.IsNull() || !v.IsKnown():
	case v.Type() == cty.String:
		n += len(v.AsString())
	case endless(v):
		n += max(limit, 0) + 8
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && n <= limit; {
			k, e := it.Element()
			if k.Type() == cty.String && k.IsKnown() && !k.IsNull() {
				n += len(k.AsString())
			}
			n += valueSize(e, limit-n)
		}
	}
	return n
}
