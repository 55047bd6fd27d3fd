// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ValidationError lists all problems of a value, in the order in which they were
// found. Its class is InvalidArgument.
type ValidationError []error

// Error lists the problems in the reference's format.
func (p ValidationError) Error() string {
	noun := "errors"
	if len(p) == 1 {
		noun = "error"
	}
	lines := make([]string, len(p))
	for i, err := range p {
		lines[i] = "* " + err.Error()
	}
	return fmt.Sprintf("%d %s occurred:\n\t%s\n\n", len(p), noun, strings.Join(lines, "\n\t"))
}

// Unwrap makes the problems visible to errors.Is and errors.As.
func (p ValidationError) Unwrap() []error { return append([]error{errdefs.InvalidArgument}, p...) }

// Problems returns the outermost problems of an error of Validate, one string each.
func Problems(err error) []string {
	var p ValidationError
	if err == nil {
		return nil
	}
	if !errors.As(err, &p) {
		return []string{err.Error()}
	}
	out := make([]string, len(p))
	for i, e := range p {
		out[i] = e.Error()
	}
	return out
}

// addf adds a problem.
func (p *ValidationError) addf(format string, args ...any) {
	*p = append(*p, fmt.Errorf(format, args...))
}

// under adds the problems of a part below a title.
func (p *ValidationError) under(title string, part ValidationError) {
	if len(part) > 0 {
		*p = append(*p, fmt.Errorf("%s: %w", title, part))
	}
}

// err returns nil if there are no problems.
func (p ValidationError) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
