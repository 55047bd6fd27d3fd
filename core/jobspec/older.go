// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drover-project/drover/core/hcl1"
)

// The reference reads specifications of volumes, namespaces, node pools and variables as HCL 1,
// in which these say the same, and so do we:
//
//	segments {                                       segments { "example.org/zone" = "a", rack = "r1" }
//	  "example.org/zone" = "a"                       topology { segments { rack = "r1" } }
//	  rack = "r1"                                    parameters = { kind = "loop" }
//	}
//
// HCL 2 knows only blocks of several lines, whose keys are identifiers.

// shape says which names of a specification are blocks, though they may be written as
// objects, and the other way round.
type shape struct{ blocks, objects []string }

var (
	volumeShape = shape{blocks: []string{
		"capability", "constraint", "mount_options", "topology_request", "required", "preferred", "topology", "segments", "secrets", "parameters", "context",
	}}
	objectShape   = shape{blocks: []string{"meta", "capabilities", "node_pool_config", "scheduler_config"}}
	variableShape = shape{objects: []string{"items"}}
)

// quotedPrefix begins the identifier that replaces a quoted key which is not an identifier.
const quotedPrefix = "quoted_key_"

var standIn = regexp.MustCompile(quotedPrefix + "[0-9a-f]*")

// keyName returns the quoted key that an identifier replaces.
func keyName(name string) string {
	if text, ok := strings.CutPrefix(name, quotedPrefix); ok {
		if key, err := hex.DecodeString(text); err == nil {
			return string(key)
		}
	}
	return name
}

// parseSpec parses a specification. What it returns was read from the second value, and
// the third puts problems with it to where they are in src.
func parseSpec(src []byte, filename string, s shape) (*hclsyntax.Body, []byte, func(hcl.Diagnostics) hcl.Diagnostics, hcl.Diagnostics) {
	same := func(d hcl.Diagnostics) hcl.Diagnostics { return d }
	if diags := checkBounds(src, filename); diags.HasErrors() {
		return nil, src, same, diags
	}
	edits := s.edits(src, filename)
	if len(edits) == 0 {
		body, diags := parseBody(src, filename)
		return body, src, same, diags
	}
	out := edits.Apply(src)
	back := func(diags hcl.Diagnostics) hcl.Diagnostics {
		edits.Restore(diags, src)
		for _, d := range diags {
			d.Detail = standIn.ReplaceAllStringFunc(d.Detail, keyName)
		}
		return diags
	}
	body, diags := parseBody(out, filename)
	return body, out, back, back(diags)
}

// edits returns what makes src HCL 2, in order; nil if its brackets do not match, which the
// parser reports.
func (s shape) edits(src []byte, filename string) hcl1.Edits {
	tokens, diags := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil // the parser reports them
	}
	w := &walk{shape: s, tokens: tokens, ended: -1}
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			w.openBrace(i)
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			w.open = append(w.open, false)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			if len(w.open) == 0 {
				return nil
			}
			w.closeBracket(i)
		case hclsyntax.TokenComma:
			if w.inBlock() {
				w.edit(t.Range.Start.Byte, t.Range.End.Byte, "\n")
				w.ended = i
			}
		case hclsyntax.TokenOQuote, hclsyntax.TokenIdent:
			if w.inBlock() && w.atStart(i) {
				w.out = append(w.out, keyEdits(tokens[i:])...)
			}
		}
	}
	return w.out
}

// walk is one pass over the tokens of a specification.
type walk struct {
	shape
	tokens hclsyntax.Tokens
	open   []bool // of the open brackets, which are of blocks; the innermost is last
	ended  int    // the last token behind which a line break was put; -1 if there is none
	out    hcl1.Edits
}

func (w *walk) edit(from, to int, text string) {
	w.out = append(w.out, hcl1.Edit{From: from, To: to, Text: text})
}

// kind returns the type of token i; that of the end if there is no such token.
func (w *walk) kind(i int) hclsyntax.TokenType {
	if i < 0 || i >= len(w.tokens) {
		return hclsyntax.TokenEOF
	}
	return w.tokens[i].Type
}

// is reports whether token i is one of these names.
func (w *walk) is(i int, names []string) bool {
	return w.kind(i) == hclsyntax.TokenIdent && slices.Contains(names, string(w.tokens[i].Bytes))
}

// inBlock reports whether the innermost open bracket is of a block, or none is open.
func (w *walk) inBlock() bool { return len(w.open) == 0 || w.open[len(w.open)-1] }

// atStart reports whether token i is the first of its line, or will be.
func (w *walk) atStart(i int) bool {
	before := w.kind(i - 1)
	return endsLine(before) || before == hclsyntax.TokenOBrace || w.ended == i-1
}

// endsLine reports whether a line ends with, or at, a token.
func endsLine(t hclsyntax.TokenType) bool {
	return t == hclsyntax.TokenNewline || t == hclsyntax.TokenComment || t == hclsyntax.TokenEOF
}

// openBrace handles "{" at token i: of a block, or of an object, which may be written as each
// other.
func (w *walk) openBrace(i int) {
	at, block := w.tokens[i].Range, false
	if w.inBlock() {
		switch {
		case w.is(i-1, w.objects): // items { ... }
			w.edit(at.Start.Byte, at.Start.Byte, "= ")
		case w.kind(i-1) == hclsyntax.TokenIdent || w.kind(i-1) == hclsyntax.TokenCQuote:
			block = true
		case w.kind(i-1) == hclsyntax.TokenEqual && w.is(i-2, w.blocks): // segments = { ... }
			block = true
			equal := w.tokens[i-1].Range
			w.edit(equal.Start.Byte, equal.End.Byte, " ")
		}
	}
	w.open = append(w.open, block)
	if block && !endsLine(w.kind(i+1)) && w.kind(i+1) != hclsyntax.TokenCBrace {
		w.edit(at.End.Byte, at.End.Byte, "\n")
	}
}

// closeBracket handles the end of the innermost bracket at token i. The "}" of a block gets a
// line of its own.
func (w *walk) closeBracket(i int) {
	block := w.inBlock()
	w.open = w.open[:len(w.open)-1]
	if !block || w.kind(i) != hclsyntax.TokenCBrace {
		return
	}
	at := w.tokens[i].Range
	if !w.atStart(i) {
		w.edit(at.Start.Byte, at.Start.Byte, "\n")
	}
	if after := w.kind(i + 1); !endsLine(after) && after != hclsyntax.TokenComma {
		w.edit(at.End.Byte, at.End.Byte, "\n")
		w.ended = i
	}
}

// keyEdits returns what makes an item of HCL 2 of one that begins with a key, if it does: a name
// without quotes and "=".
func keyEdits(item hclsyntax.Tokens) (out hcl1.Edits) {
	last := 0 // the last token of the name
	if item[0].Type == hclsyntax.TokenOQuote {
		last = 2
	}
	if len(item) < last+2 {
		return nil
	}
	after := item[last+1]
	if after.Type != hclsyntax.TokenEqual && after.Type != hclsyntax.TokenColon {
		return nil
	}
	if last > 0 {
		if item[1].Type != hclsyntax.TokenQuotedLit || item[last].Type != hclsyntax.TokenCQuote {
			return nil
		}
		out = append(out, hcl1.Edit{From: item[0].Range.Start.Byte, To: item[last].Range.End.Byte, Text: identifier(string(item[1].Bytes))})
	}
	if after.Type == hclsyntax.TokenColon {
		out = append(out, hcl1.Edit{From: after.Range.Start.Byte, To: after.Range.End.Byte, Text: "="})
	}
	return out
}

// identifier returns a name that stands for a quoted key.
func identifier(key string) string {
	if hclsyntax.ValidIdentifier(key) && !strings.HasPrefix(key, quotedPrefix) {
		return key
	}
	return quotedPrefix + hex.EncodeToString([]byte(key))
}
