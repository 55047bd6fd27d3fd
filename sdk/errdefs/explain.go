// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package errdefs

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/internal/oneline"
)

// Limits of the reason, the details and the retry hint of an error. Longer texts are cut
// and further details left out, because an error may come from a plugin, and is stored and
// shown.
const (
	MaxReason      = 64  // bytes of a reason code, and of the name of a detail
	MaxDetails     = 16  // number of details
	MaxDetailValue = 256 // bytes of the value of a detail
	// MaxRetryAfter is the longest retry hint. A longer one is taken for a mistake and
	// ignored.
	MaxRetryAfter = 24 * time.Hour
)

// WithReason adds a reason code to err: a short name by which programs recognise what
// happened, such as "image_not_found". It consists of lower-case letters, digits and "_";
// capital letters are lowered, and other characters become "_". Class and text stay.
func WithReason(err error, reason string) error {
	if err == nil {
		return nil
	}
	return &classed{class: ClassOf(err), err: err, reason: code(reason)}
}

// WithDetail adds a detail to err, such as "image" and its name. Its name has the form of
// a reason code. In the value, each character that cannot be printed becomes a space.
// Values are shown to users: they must contain no secrets.
func WithDetail(err error, name, value string) error {
	if err == nil {
		return nil
	}
	out := &classed{class: ClassOf(err), err: err}
	if name = code(name); name != "" {
		out.details = map[string]string{name: oneline.Text(value, MaxDetailValue)}
	}
	return out
}

// WithRetryAfter adds a retry hint to err: before d has passed, another try cannot succeed
// or is not wanted. It does not make the error retryable. A d of zero or less, or above
// MaxRetryAfter, is ignored.
func WithRetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &classed{class: ClassOf(err), err: err, retryAfter: soundHint(d)}
}

// ReasonOf returns the outermost reason code of err, or "".
func ReasonOf(err error) string {
	if e := outermost(err, func(e *classed) bool { return e.reason != "" }); e != nil {
		return e.reason
	}
	return ""
}

// DetailsOf returns the details of err by name; of details with the same name the outermost
// counts. It returns nil if there are none.
func DetailsOf(err error) map[string]string {
	var out map[string]string
	outermost(err, func(e *classed) bool {
		for _, name := range slices.Sorted(maps.Keys(e.details)) {
			if _, has := out[name]; has || len(out) == MaxDetails {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[name] = e.details[name]
		}
		return false
	})
	return out
}

// RetryAfter returns the outermost retry hint of err, or 0 if it has none.
func RetryAfter(err error) time.Duration {
	if e := outermost(err, func(e *classed) bool { return e.retryAfter > 0 }); e != nil {
		return e.retryAfter
	}
	return 0
}

// outermost returns the first error of this package for which found holds, along the chain
// that errors.As follows; nil if there is none.
func outermost(err error, found func(*classed) bool) *classed {
	var e *classed
	for errors.As(err, &e) {
		if found(e) {
			return e
		}
		err, e = e.err, nil
	}
	return nil
}

func soundHint(d time.Duration) time.Duration {
	if d <= 0 || d > MaxRetryAfter {
		return 0
	}
	return d
}

// code returns text in the form of a reason code.
func code(text string) string {
	text = text[:min(len(text), MaxReason)]
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, text)
}
