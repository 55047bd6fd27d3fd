// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drover-project/drover/core/hcl1"
)

// allowQuotedKeys supports blocks with quoted keys, such as
//
//	chroot_env {
//	  "/bin" = "/bin"
//	}
//
// which the reference's configuration may contain but HCL 2 supports only in objects.
// It turns such a block into an object by inserting "=" before its brace. Line numbers
// do not change.
func allowQuotedKeys(src []byte, name string) []byte {
	tokens, diags := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() || !bytes.Contains(src, []byte(`"`)) {
		return src // the parser reports the error
	}
	var open []int // indexes of braces in tokens
	var at []int   // offsets in src where "=" is inserted
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			open = append(open, i)
		case hclsyntax.TokenCBrace:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case hclsyntax.TokenOQuote:
			if len(open) == 0 || !quotedKey(tokens, i) {
				continue
			}
			brace := open[len(open)-1]
			if brace > 0 && tokens[brace-1].Type == hclsyntax.TokenIdent {
				at = append(at, tokens[brace].Range.Start.Byte)
			}
		}
	}
	slices.Sort(at) // an outer block may be told of after one in it
	var out hcl1.Edits
	for _, place := range slices.Compact(at) {
		out = append(out, hcl1.Edit{From: place, To: place, Text: "= "})
	}
	return out.Apply(src)
}

// quotedKey reports whether the item of a block that begins at token i is "name" =.
func quotedKey(tokens hclsyntax.Tokens, i int) bool {
	if i == 0 || i+3 >= len(tokens) {
		return false
	}
	before := tokens[i-1].Type
	return (before == hclsyntax.TokenNewline || before == hclsyntax.TokenOBrace || before == hclsyntax.TokenComment) &&
		tokens[i+1].Type == hclsyntax.TokenQuotedLit && tokens[i+2].Type == hclsyntax.TokenCQuote && tokens[i+3].Type == hclsyntax.TokenEqual
}
