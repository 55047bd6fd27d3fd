// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// checkNesting refuses a text whose blocks are nested too deep before it is
// parsed: the parser recurses once for each. It looks at the first word after
// each delimiter only; the parsed text is checked again, exactly.
func checkNesting(name, text, left string) error {
	var open []int // levels that each open block adds: an "else if" adds one
	depth, line := 0, 1
	for {
		before, rest, found := strings.Cut(text, left)
		if !found {
			return nil
		}
		line += strings.Count(before, "\n")
		text = rest
		words := strings.Fields(strings.TrimPrefix(rest[:min(len(rest), 64)], "-"))
		switch firstWord(words, 0) {
		case "if", "range", "with", "block", "define":
			open = append(open, 1)
			depth++
		case "else":
			if next := firstWord(words, 1); len(open) > 0 && (next == "if" || next == "with") {
				open[len(open)-1]++
				depth++
			}
		case "end":
			if len(open) > 0 {
				depth -= open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
		if depth > 2*maxNesting {
			return errdefs.InvalidArgumentf("template: %s:%d: blocks are nested more than %d deep", name, line, maxNesting)
		}
	}
}

// firstWord is the letters that a word begins with.
func firstWord(words []string, i int) string {
	if i >= len(words) {
		return ""
	}
	w := words[i]
	end := strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		return w
	}
	return w[:end]
}
