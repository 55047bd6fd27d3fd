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

// edits returns what makes src HCL 2, in order.
func (s shape) edits(src []byte, filename string) (out hcl1.Edits) {
	tokens, diags := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil // the parser reports them
	}
	kind := func(i int) hclsyntax.TokenType {
		if i < 0 || i >= len(tokens) {
			return hclsyntax.TokenEOF
		}
		return tokens[i].Type
	}
	endsLine := func(t hclsyntax.TokenType) bool {
		return t == hclsyntax.TokenNewline || t == hclsyntax.TokenComment || t == hclsyntax.TokenEOF
	}
	var blocks []bool // of the open brackets, which are of blocks
	ended := -1       // the last token after which a line ends that did not end there
	inBlock := func() bool { return len(blocks) == 0 || blocks[len(blocks)-1] }
	for i, t := range tokens {
		at := t.Range
		switch t.Type {
		case hclsyntax.TokenOBrace:
			block := inBlock() && (kind(i-1) == hclsyntax.TokenIdent || kind(i-1) == hclsyntax.TokenCQuote)
			switch {
			case block && kind(i-1) == hclsyntax.TokenIdent && slices.Contains(s.objects, string(tokens[i-1].Bytes)):
				out, block = append(out, hcl1.Edit{From: at.Start.Byte, To: at.Start.Byte, Text: "= "}), false
			case inBlock() && kind(i-1) == hclsyntax.TokenEqual && kind(i-2) == hclsyntax.TokenIdent && slices.Contains(s.blocks, string(tokens[i-2].Bytes)):
				equal := tokens[i-1].Range
				out, block = append(out, hcl1.Edit{From: equal.Start.Byte, To: equal.End.Byte, Text: " "}), true
			}
			if blocks = append(blocks, block); block && !endsLine(kind(i+1)) && kind(i+1) != hclsyntax.TokenCBrace {
				out = append(out, hcl1.Edit{From: at.End.Byte, To: at.End.Byte, Text: "\n"})
			}
		case hclsyntax.TokenCBrace:
			if len(blocks) == 0 {
				return nil
			}
			block := inBlock()
			if blocks = blocks[:len(blocks)-1]; !block {
				continue
			}
			if before := kind(i - 1); !endsLine(before) && before != hclsyntax.TokenOBrace && ended != i-1 {
				out = append(out, hcl1.Edit{From: at.Start.Byte, To: at.Start.Byte, Text: "\n"})
			}
			if after := kind(i + 1); !endsLine(after) && after != hclsyntax.TokenComma {
				out, ended = append(out, hcl1.Edit{From: at.End.Byte, To: at.End.Byte, Text: "\n"}), i
			}
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			blocks = append(blocks, false)
		case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			if len(blocks) == 0 {
				return nil
			}
			blocks = blocks[:len(blocks)-1]
		case hclsyntax.TokenComma:
			if inBlock() {
				out, ended = append(out, hcl1.Edit{From: at.Start.Byte, To: at.End.Byte, Text: "\n"}), i
			}
		case hclsyntax.TokenOQuote, hclsyntax.TokenIdent:
			if before := kind(i - 1); !inBlock() || !endsLine(before) && before != hclsyntax.TokenOBrace && ended != i-1 {
				continue // it does not begin an item
			}
			out = append(out, keyEdits(tokens[i:])...)
		}
	}
	return out
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
