// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema

import "strings"

// Open lists the paths of the attributes of a config whose values are known only when the
// task starts, such as config.args.
type Open []string

// ApplyKnown is Apply for a config as written in a job file: it leaves out every attribute
// whose value contains an interpolation, such as "${NOMAD_PORT_http}", and returns their
// paths. If one value of a list or a map contains an interpolation, the whole list or map
// is left out, so that the indexes in paths stay right. Of a block only the attributes with
// an interpolation are left out.
func (s *Schema) ApplyKnown(config map[string]any) (map[string]any, Open, error) {
	var later Open
	w := walker{deferred: true, later: &later}
	out := w.object("config", s, config)
	if err := w.err(); err != nil {
		return nil, nil, err
	}
	return out, later, nil
}

// Concern reports whether a finding at path may depend on an open attribute: because path
// is the attribute, is within it, or is a block that contains it.
func (o Open) Concern(path string) bool {
	for _, open := range o {
		if inside(path, open) || inside(open, path) {
			return true
		}
	}
	return false
}

// inside reports whether path is outer or a part of it.
func inside(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// leaves reports whether the attribute must be left out because its value is known only
// later, and notes it.
func (w *walker) leaves(path string, a *Attribute, v any) bool {
	if w.later == nil {
		return false
	}
	if a.Block != nil {
		if _, text := v.(string); !text {
			return false // its attributes are looked at one by one
		}
	}
	if !interpolated(v) {
		return false
	}
	*w.later = append(*w.later, path)
	return true
}

// interpolated reports whether a value contains an interpolation.
func interpolated(v any) bool {
	switch x := v.(type) {
	case string:
		return strings.Contains(x, "${")
	case []any:
		for _, item := range x {
			if interpolated(item) {
				return true
			}
		}
	case []string:
		for _, item := range x {
			if interpolated(item) {
				return true
			}
		}
	case map[string]any:
		for key, item := range x {
			if interpolated(key) || interpolated(item) {
				return true
			}
		}
	case map[string]string:
		for key, item := range x {
			if interpolated(key) || interpolated(item) {
				return true
			}
		}
	case []map[string]any:
		for _, item := range x {
			if interpolated(item) {
				return true
			}
		}
	}
	return false
}
