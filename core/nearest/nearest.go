// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nearest finds the known name that a misspelt one probably means, so that an error
// can propose it. Any package that reads names from people may import it.
package nearest

import (
	"flag"
	"slices"
	"strings"
)

// maxLength is the longest name for which a proposal is looked for, in bytes.
const maxLength = 64

// Of returns the most similar of the known names, or "" if none is similar enough to be what
// was meant.
func Of(name string, known []string) string {
	if len(name) > maxLength {
		return ""
	}
	best, least := "", min(1+len(name)/4, 3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(name, k); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	return best
}

// Flag returns the flag that was meant by the first of the arguments that looks like a flag
// which the set does not have, with its dash; "" if there is none.
func Flag(fs *flag.FlagSet, args []string) string {
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, isFlag := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !isFlag || name == "" || fs.Lookup(name) != nil {
			continue
		}
		if meant := Of(name, known); meant != "" {
			return "-" + meant
		}
		break
	}
	return ""
}

// distance returns how many letters must be changed, added, left out, or swapped with their
// neighbour to get from one name to the other.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
