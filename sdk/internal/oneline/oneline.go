// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package oneline makes texts from a plugin fit to be stored and shown: of one line, without
// control characters, and of a limited size. It owns that rule; packages of the sdk import
// it.
package oneline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns text with a space in place of each character that cannot be printed, cut to
// at most limit bytes between two characters.
func Text(text string, limit int) string {
	if len(text) > limit {
		end := limit
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
}
