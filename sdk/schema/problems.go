// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Problem is one error in a config. Path names the attribute, such as
// config.mount[1].source; callers map it to a line of the job file.
type Problem struct {
	Path string
	Text string
	// Description is the plugin's description of the attribute, "" for an attribute
	// that the schema does not have.
	Description string
}

func (p Problem) Error() string { return p.Path + ": " + p.Text }

// Problems is the list of all errors in a config. ProblemsOf extracts it from an
// error.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// err returns the problems as an error of class InvalidArgument, or nil.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return errdefs.New(errdefs.InvalidArgument, p)
}

// ProblemsOf returns the problems in an error of this package.
func ProblemsOf(err error) Problems {
	var p Problems
	errors.As(err, &p)
	return p
}

// nearest returns the candidate that is most similar to name, or "".
func nearest(name string, candidates []string) string {
	if len(name) > maxShown { // too long for a typing error, and the distance costs time in proportion to the length
		return ""
	}
	best, bestDistance := "", 1+len(name)/3
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	return best
}

// maxShown is how many characters of a long text a problem shows.
const maxShown = 64

func (w *walker) describe(v any) string {
	if w.secret {
		return "another value, which is not shown"
	}
	return describe(v)
}

func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		if len(x) > maxShown {
			return strconv.Quote(x[:maxShown]) + "..."
		}
		return strconv.Quote(x)
	case bool:
		return strconv.FormatBool(x)
	case []any, []string, []map[string]any:
		return "a list"
	case map[string]any, map[string]string:
		return "a map"
	}
	if f, ok := toFloat(v); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprintf("a %T", v)
}
