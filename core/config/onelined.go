// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// broken is a file whose blocks have each item on a line of its own.
type broken struct {
	source []byte
	text   []byte
	breaks []int // offsets in text of the line breaks that source does not have
}

func (b *broken) changed() bool { return !bytes.Equal(b.source, b.text) }

// restore makes the places of errors in text those in the source.
func (b *broken) restore(diags hcl.Diagnostics) {
	if !b.changed() {
		return
	}
	place := func(p *hcl.Pos) {
		added := 0
		for _, at := range b.breaks {
			if at < p.Byte {
				added++
			}
		}
		p.Byte = min(p.Byte-added, len(b.source))
		before := b.source[:p.Byte]
		p.Line = 1 + bytes.Count(before, []byte("\n"))
		p.Column = 1 + p.Byte - (1 + bytes.LastIndexByte(before, '\n'))
	}
	for _, d := range diags {
		for _, r := range []*hcl.Range{d.Subject, d.Context} {
			if r != nil {
				place(&r.Start)
				place(&r.End)
			}
		}
	}
}

// breakLines supports blocks with several items, or with blocks, on one line, such as
//
//	plugin "raw_exec" { config { enabled = true } }
//	tls { http = true, rpc = true }
//
// which the reference's configuration may contain but HCL 2 does not support. It puts each
// item on a line of its own. The parser reports what else is wrong.
func breakLines(src []byte, name string) *broken {
	out := &broken{source: src}
	tokens, diags := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		out.text = src
		return out
	}
	var bodies []bool // of each open bracket: whether it is that of a block
	inBody := func() bool { return len(bodies) == 0 || bodies[len(bodies)-1] }
	copied := 0
	breakAt := func(offset int) {
		out.text = append(out.text, src[copied:offset]...)
		copied = offset
		out.breaks = append(out.breaks, len(out.text))
		out.text = append(out.text, '\n')
	}
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
				out.text = append(append(out.text, src[copied:t.Range.Start.Byte]...), '\n')
				copied = t.Range.End.Byte
			}
		case hclsyntax.TokenIdent:
			if inBody() && !fresh && beginsItem(tokens, i) {
				breakAt(t.Range.Start.Byte)
			}
		}
	}
	out.text = append(out.text, src[copied:]...)
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
