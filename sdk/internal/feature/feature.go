// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package feature finds the optional abilities of a plugin. A contract requires a small
// interface of every plugin. Each further ability is a separate interface, which a plugin
// has if its Go type implements it. It owns the lookup; the contracts of the sdk, which
// import it, own their tables.
package feature

import (
	"regexp"
	"slices"
)

// Row is one optional ability of the plugins of a contract. P is the interface that the
// contract requires.
type Row[P any, F ~string] struct {
	Feature F
	// Has reports whether a plugin of this process has the ability. It is Implements,
	// instantiated with the ability's interface.
	Has func(P) bool
}

// Implements reports whether p implements the interface T.
func Implements[T, P any](p P) bool {
	_, ok := any(p).(T)
	return ok
}

// Announcer is a plugin in another process. Its Go type implements everything, so what
// its plugin announced counts.
type Announcer[F ~string] interface{ Announced() []F }

// Of returns the features of a plugin, in the order of the table.
func Of[P any, F ~string](table []Row[P, F], p P) []F {
	if a, ok := any(p).(Announcer[F]); ok {
		return a.Announced()
	}
	var out []F
	for _, r := range table {
		if r.Has(p) {
			out = append(out, r.Feature)
		}
	}
	return out
}

// Names returns the features of a table.
func Names[P any, F ~string](table []Row[P, F]) []F {
	out := make([]F, 0, len(table))
	for _, r := range table {
		out = append(out, r.Feature)
	}
	return out
}

// Strings converts features to what is sent, and Parse does the reverse.
func Strings[F ~string](in []F) []string {
	var out []string
	for _, f := range in {
		out = append(out, string(f))
	}
	return out
}

// maxAnnounced is the largest number of features that are taken from a plugin.
const maxAnnounced = 200

// sound matches names, whose length is checked apart: a counted repetition costs every plugin
// 50 KB.
var sound = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

const maxName = 64

// Parse returns the features that a plugin announced. Those that this side does not know
// are kept, so that they can be shown. Malformed names are left out.
func Parse[F ~string](in []string) []F {
	var out []F
	for _, s := range in[:min(len(in), maxAnnounced)] {
		if len(s) <= maxName && sound.MatchString(s) && !slices.Contains(out, F(s)) {
			out = append(out, F(s))
		}
	}
	return out
}
