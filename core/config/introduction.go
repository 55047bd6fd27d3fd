// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
)

// ClientIntroduction says what happens to new nodes that do not show a token of
// `node intro create`, and how long such a token is valid.
type ClientIntroduction struct {
	Enforcement        string `json:"enforcement,omitempty"`          // none (default), warn or strict
	DefaultIdentityTTL string `json:"default_identity_ttl,omitempty"` // lifetime of a token whose request names none
	MaxIdentityTTL     string `json:"max_identity_ttl,omitempty"`
}

// enforcements are the values of Enforcement; "" is the first.
var enforcements = []string{"none", "warn", "strict"}

func (i *ClientIntroduction) problems() (out []string) {
	const block = "server.client_introduction"
	if i.Enforcement != "" && !slices.Contains(enforcements, i.Enforcement) {
		out = append(out, fmt.Sprintf("%s.enforcement %q is none of %q", block, i.Enforcement, enforcements))
	}
	for name, text := range map[string]string{"default_identity_ttl": i.DefaultIdentityTTL, "max_identity_ttl": i.MaxIdentityTTL} {
		if d, err := ParseDuration(text); err != nil || text != "" && d <= 0 {
			out = append(out, fmt.Sprintf("%s.%s %q is not a time such as \"5m\"", block, name, text))
		}
	}
	slices.Sort(out)
	if shortest, longest := Duration(i.DefaultIdentityTTL, 0), Duration(i.MaxIdentityTTL, 0); len(out) == 0 && longest > 0 && shortest > longest {
		out = append(out, fmt.Sprintf("%s.default_identity_ttl %q is longer than max_identity_ttl %q", block, i.DefaultIdentityTTL, i.MaxIdentityTTL))
	}
	return out
}
