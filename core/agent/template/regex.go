// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	maxPattern   = 4 << 10   // bytes of a regular expression
	maxRegexWork = 1 << 26   // its instructions times the bytes of the text
	maxMatchInts = 4_000_000 // numbers that describe all matches
)

// pattern compiles expr if a run over a text of length n is short: a run cannot
// be interrupted.
func pattern(expr string, n int) (*regexp.Regexp, error) {
	if len(expr) > maxPattern {
		return nil, errdefs.InvalidArgumentf("a regular expression has %d bytes; at most %d are allowed", len(expr), maxPattern)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if int64(len(prog.Inst))*int64(n) > maxRegexWork {
		return nil, errdefs.ResourceExhaustedf("the regular expression %.40q is too large for a text of %d bytes; use a simpler one or a shorter text", expr, n)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if int64(re.NumSubexp()+1)*2*int64(n+1) > maxMatchInts {
		return nil, errdefs.ResourceExhaustedf("the text of %d bytes is too long for the regular expression %.40q; split it first", n, expr)
	}
	return re, nil
}

func regexMatch(expr, s string) (bool, error) {
	re, err := pattern(expr, len(s))
	if err != nil {
		return false, fmt.Errorf("regexMatch: %w", err)
	}
	return re.MatchString(s), nil
}

// regexReplace replaces each match of expr in s by to, in which $1 and ${name}
// stand for groups if expand is set.
func (e *execution) regexReplace(expr, s, to string, expand bool) (string, error) {
	re, err := pattern(expr, len(s))
	if err != nil {
		return "", err
	}
	out, last := []byte{}, 0
	for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
		out = append(out, s[last:m[0]]...)
		if last = m[1]; expand {
			// One replacement may repeat a group often, so it is bounded by its own length first.
			if err := e.product(int64(len(to)), int64(m[1]-m[0])+1, int64(len(out))); err != nil {
				return "", err
			}
			out = re.ExpandString(out, to, s, m)
		} else {
			out = append(out, to...)
		}
		if err := e.room(int64(len(out))); err != nil {
			return "", err
		}
	}
	return string(append(out, s[last:]...)), nil
}

// regexFind and the rest are sprig's functions, with bounds.
func regexFind(expr, s string) (string, error) {
	re, err := pattern(expr, len(s))
	if err != nil {
		return "", err
	}
	return re.FindString(s), nil
}

func regexFindAll(expr, s string, n int) ([]string, error) {
	re, err := pattern(expr, len(s))
	if err != nil {
		return nil, err
	}
	return re.FindAllString(s, n), nil
}

func regexSplit(expr, s string, n int) ([]string, error) {
	re, err := pattern(expr, len(s))
	if err != nil {
		return nil, err
	}
	return re.Split(s, n), nil
}
