// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Problems is everything that is wrong with a value, in the order in which it
// was found. Its class is InvalidArgument.
type Problems []error

// Error lists the problems in the form that users of the reference know.
func (p Problems) Error() string {
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
func (p Problems) Unwrap() []error { return append([]error{errdefs.InvalidArgument}, p...) }

// Strings returns the texts of the problems.
func (p Problems) Strings() []string {
	out := make([]string, len(p))
	for i, err := range p {
		out[i] = err.Error()
	}
	return out
}

// addf adds a problem.
func (p *Problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// under adds the problems of a part under a title.
func (p *Problems) under(title string, part Problems) {
	if len(part) > 0 {
		*p = append(*p, fmt.Errorf("%s: %w", title, part))
	}
}

// err returns nil for no problems.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
