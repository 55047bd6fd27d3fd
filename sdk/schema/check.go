// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema

import "slices"

// Check reports whether the schema itself is valid. Plugin authors call it in a test.
func (s *Schema) Check() error {
	w := walker{}
	w.check("config", s)
	return w.err()
}

func (w *walker) check(path string, s *Schema) {
	seen := map[string]bool{}
	for _, a := range s.Attributes {
		p := path + "." + a.Name
		nested := a.Type == Block || a.Type == BlockList
		switch {
		case a.Name == "":
			w.addf(path, "an attribute has no name")
		case seen[a.Name]:
			w.addf(p, "declared twice")
		case nested != (a.Block != nil):
			w.addf(p, "type %s and its nested block do not agree", a.Type)
		case len(a.OneOf) > 0 && a.Type != String, a.Range != nil && a.Type != Number:
			w.addf(p, "a list of values is for strings, a range for numbers, and it is a %s", a.Type)
		case a.Range != nil && a.Range.Min > a.Range.Max:
			w.addf(p, "its range %d to %d has no numbers", a.Range.Min, a.Range.Max)
		case a.Required && a.Default != nil:
			w.addf(p, "required, so its default is never used")
		}
		seen[a.Name] = true
		if a.Block != nil {
			w.check(p, a.Block)
		}
		if a.Default != nil {
			w.value(p, &a, a.Default)
		} else if !slices.Contains(Types, a.Type) {
			w.addf(p, "unknown type %q", a.Type)
		}
	}
}
