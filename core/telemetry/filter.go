// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Filter selects metrics by prefixes of their names.
type Filter struct {
	rules []rule // longest first
	other bool
}

type rule struct {
	prefix string
	allow  bool
}

// NewFilter parses the rules of prefix_filter, such as "+nomad.raft" or
// "-nomad.client.allocs". The longest matching prefix decides, and a denial wins
// between equal ones. other applies to names that no rule matches.
func NewFilter(rules []string, other bool) (*Filter, error) {
	f := &Filter{other: other}
	for _, text := range rules {
		if len(text) < 2 || text[0] != '+' && text[0] != '-' {
			return nil, errdefs.InvalidArgumentf("telemetry.prefix_filter: %q must begin with + or - and name a prefix, as \"-nomad.client.allocs\"", text)
		}
		f.rules = append(f.rules, rule{prefix: text[1:], allow: text[0] == '+'})
	}
	slices.SortStableFunc(f.rules, func(a, b rule) int {
		if c := cmp.Compare(len(b.prefix), len(a.prefix)); c != 0 {
			return c
		}
		if a.allow == b.allow {
			return 0
		}
		if a.allow {
			return 1
		}
		return -1
	})
	return f, nil
}

// Allows reports whether a metric with this name is published. A nil filter allows
// all.
func (f *Filter) Allows(name string) bool {
	if f == nil {
		return true
	}
	for _, r := range f.rules {
		if strings.HasPrefix(name, r.prefix) {
			return r.allow
		}
	}
	return f.other
}
