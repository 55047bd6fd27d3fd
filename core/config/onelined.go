// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drover-project/drover/core/hcl1"
)

// breakLines supports blocks with several items, or with blocks, on one line, such as
//
//	plugin "raw_exec" { config { enabled = true } }
//	tls { http = true, rpc = true }
//
// which the reference's configuration may contain but HCL 2 does not support. It puts each
// item on a line of its own. The parser reports what else is wrong.
func breakLines(src []byte, name string) (out hcl1.Edits) {
	tokens, diags := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	var bodies []bool // of each open bracket: whether it is that of a block
	inBody := func() bool { return len(bodies) == 0 || bodies[len(bodies)-1] }
	breakAt := func(offset int) { out = append(out, hcl1.Edit{From: offset, To: offset, Text: "\n"}) }
	for i, t := range tokens {
		fresh := i == 0 || startsLine(tokens[i-1].Type)
		switch t.Type {
		case hclsyntax.TokenOBrace:
			body := inBody() && i > 0 && (tokens[i-1].Type == hclsyntax.TokenIdent || tokens[i-1].Type == hclsyntax.TokenCQuote)
			bodies = append(bodies, body)
			if body && i+1 < len(tokens) && !startsLine(tokens[i+1].Type) && tokens[i+1].Type != hclsyntax.TokenCBrace {
				breakAt(t.Range.End.Byte)
			}
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			bodies = append(bodies, false)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			if inBody() && len(bodies) > 0 && !fresh && tokens[i-1].Type != hclsyntax.TokenOBrace {
				breakAt(t.Range.Start.Byte)
			}
			if len(bodies) > 0 {
				bodies = bodies[:len(bodies)-1]
			}
		case hclsyntax.TokenComma:
			if inBody() { // in place of a line break
				out = append(out, hcl1.Edit{From: t.Range.Start.Byte, To: t.Range.End.Byte, Text: "\n"})
			}
		case hclsyntax.TokenIdent:
			if inBody() && !fresh && beginsItem(tokens, i) {
				breakAt(t.Range.Start.Byte)
			}
		}
	}
	return out
}

func startsLine(t hclsyntax.TokenType) bool {
	return t == hclsyntax.TokenNewline || t == hclsyntax.TokenComment
}

// beginsItem reports whether the name at token i follows an item of the same line and
// begins the next one.
func beginsItem(tokens hclsyntax.Tokens, i int) bool {
	if i+1 >= len(tokens) {
		return false
	}
	switch tokens[i-1].Type {
	case hclsyntax.TokenNumberLit, hclsyntax.TokenCQuote, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCParen:
	case hclsyntax.TokenIdent:
		if word := string(tokens[i-1].Bytes); word != "true" && word != "false" {
			return false // the type of a block before its label
		}
	default:
		return false
	}
	switch tokens[i+1].Type {
	case hclsyntax.TokenEqual, hclsyntax.TokenOBrace, hclsyntax.TokenOQuote:
		return true
	}
	return false
}
