// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/drover-project/drover/core/model"
)

// matcher evaluates constraint operators and caches what it has compiled.
type matcher struct {
	regexps  map[string]*regexp.Regexp
	versions map[string]version.Constraints
}

func newMatcher() *matcher {
	return &matcher{regexps: map[string]*regexp.Regexp{}, versions: map[string]version.Constraints{}}
}

// match reports whether l OPERAND r holds. lok and rok say whether the sides have a
// value.
func (m *matcher) match(operand, l, r string, lok, rok bool) bool {
	switch operand {
	case model.ConstraintAttributeIsSet:
		return lok
	case model.ConstraintAttributeIsNotSet:
		return !lok
	case "!=", "not":
		return lok != rok || l != r
	}
	if !lok || !rok {
		return false
	}
	switch operand {
	case "", "=", "==", "is":
		return l == r
	case "<", "<=", ">", ">=":
		return ordered(operand, l, r)
	case model.ConstraintRegex:
		return m.regexp(l, r)
	case model.ConstraintVersion:
		return m.version(l, r, false)
	case model.ConstraintSemver:
		return m.version(l, r, true)
	case model.ConstraintSetContains, model.ConstraintSetContainsAll:
		return containsAll(l, r)
	case model.ConstraintSetContainsAny:
		return containsAny(l, r)
	}
	return false
}

// ordered compares two values as integers, or else as numbers, or else as strings.
func ordered(operand, l, r string) bool {
	return satisfies(operand, compare(l, r))
}

func compare(l, r string) int {
	if a, err := strconv.ParseInt(l, 10, 64); err == nil {
		if b, err := strconv.ParseInt(r, 10, 64); err == nil {
			return cmp.Compare(a, b)
		}
	}
	if a, err := strconv.ParseFloat(l, 64); err == nil {
		if b, err := strconv.ParseFloat(r, 64); err == nil {
			return cmp.Compare(a, b)
		}
	}
	return strings.Compare(l, r)
}

func satisfies(operand string, c int) bool {
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (m *matcher) regexp(l, r string) bool {
	re, ok := m.regexps[r]
	if !ok {
		re, _ = regexp.Compile(r) // nil for an invalid expression, which matches nothing
		m.regexps[r] = re
	}
	return re != nil && re.MatchString(l)
}

// version reports whether version l meets the constraints r. With strict, versions
// must be semantic versions.
func (m *matcher) version(l, r string, strict bool) bool {
	c, ok := m.versions[r]
	if !ok {
		c, _ = version.NewConstraint(r)
		m.versions[r] = c
	}
	if c == nil {
		return false
	}
	v, err := version.NewVersion(l)
	if strict {
		v, err = version.NewSemver(l)
	}
	if err != nil {
		return false
	}
	if c.Check(v) {
		return true
	}
	// "2.0.6-dev" meets ">= 1.4.0": a prerelease counts as its core version, unless
	// the constraint names that core version.
	return v.Prerelease() != "" && c.Check(v.Core()) && !names(r, v.Core().String())
}

// names reports whether a constraint such as ">= 1.4.0, < 2" names a version.
func names(constraint, version string) bool {
	words := strings.FieldsFunc(constraint, func(r rune) bool { return strings.ContainsRune(" ,<>=!~", r) })
	return slices.Contains(words, version) || slices.Contains(words, "v"+version)
}

func split(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func containsAll(l, r string) bool {
	have := split(l)
	for _, want := range split(r) {
		if !slices.Contains(have, want) {
			return false
		}
	}
	return true
}

func containsAny(l, r string) bool {
	have := split(l)
	return slices.ContainsFunc(split(r), func(want string) bool { return slices.Contains(have, want) })
}
