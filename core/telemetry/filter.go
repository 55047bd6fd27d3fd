// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Filter says which metrics are told, by their names' beginnings.
type Filter struct {
	rules []rule // the longest first
	other bool
}

type rule struct {
	prefix string
	allow  bool
}

// NewFilter reads the rules of prefix_filter, as "+nomad.raft" or "-nomad.client.allocs".
// The longest prefix that fits a name decides, of equal ones the refusal; names that
// none fits are told if other is true.
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

// Allows tells whether a metric of that name is told. A nil filter allows all.
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
