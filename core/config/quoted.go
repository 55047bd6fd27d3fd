// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// allowQuotedKeys lets blocks have keys in quotes, as in
//
//	chroot_env {
//	  "/bin" = "/bin"
//	}
//
// which the reference's configuration may and HCL 2 has only in objects: such a
// block is made one, by a "=" before its brace. Lines stay where they are.
func allowQuotedKeys(src []byte, name string) []byte {
	tokens, diags := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() || !bytes.Contains(src, []byte(`"`)) {
		return src // the parser says what is wrong
	}
	var open []int // places of braces in tokens
	var at []int   // places in src where a "=" goes
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
	out := src
	for _, place := range slices.Backward(slices.Compact(at)) {
		out = slices.Insert(slices.Clone(out), place, []byte("= ")...)
	}
	return out
}

// quotedKey reports whether an item of a block that begins at i is "name" =.
func quotedKey(tokens hclsyntax.Tokens, i int) bool {
	if i == 0 || i+3 >= len(tokens) {
		return false
	}
	before := tokens[i-1].Type
	return (before == hclsyntax.TokenNewline || before == hclsyntax.TokenOBrace || before == hclsyntax.TokenComment) &&
		tokens[i+1].Type == hclsyntax.TokenQuotedLit && tokens[i+2].Type == hclsyntax.TokenCQuote && tokens[i+3].Type == hclsyntax.TokenEqual
}
