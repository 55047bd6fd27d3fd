// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"maps"
	"slices"
	"strconv"
)

// deviceGroup holds the measured values of a group of devices.
type deviceGroup struct {
	Vendor, Type, Name string
	InstanceStats      map[string]struct {
		Summary *deviceValue
		Stats   *struct{ Attributes map[string]*deviceValue }
	}
}

type deviceValue struct {
	FloatNumeratorVal, FloatDenominatorVal *float64
	IntNumeratorVal, IntDenominatorVal     *int64
	StringVal                              *string
	BoolVal                                *bool
	Unit                                   string
}

// String formats the value, for example "2 / 11441 MiB".
func (v *deviceValue) String() string {
	if v == nil {
		return "<none>"
	}
	out := ""
	switch {
	case v.IntNumeratorVal != nil:
		out = strconv.FormatInt(*v.IntNumeratorVal, 10)
		if v.IntDenominatorVal != nil {
			out += " / " + strconv.FormatInt(*v.IntDenominatorVal, 10)
		}
	case v.FloatNumeratorVal != nil:
		out = strconv.FormatFloat(*v.FloatNumeratorVal, 'f', -1, 64)
		if v.FloatDenominatorVal != nil {
			out += " / " + strconv.FormatFloat(*v.FloatDenominatorVal, 'f', -1, 64)
		}
	case v.StringVal != nil:
		out = *v.StringVal
	case v.BoolVal != nil:
		out = strconv.FormatBool(*v.BoolVal)
	default:
		return "<none>"
	}
	if v.Unit != "" && v.Unit != "#" {
		out += " " + v.Unit
	}
	return out
}

func (g *deviceGroup) label(id string) string {
	return g.Vendor + "/" + g.Type + "/" + g.Name + "[" + id + "]"
}

// deviceUse prints the summary of each device, or nothing if there are none.
func (s *session) deviceUse(title string, groups []deviceGroup) {
	var rows [][]string
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			rows = append(rows, []string{g.label(id), g.InstanceStats[id].Summary.String()})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.title("%s", title)
	s.table([]string{"Device", "Summary"}, rows)
}

// deviceValues prints all measured values of each device.
func (s *session) deviceValues(groups []deviceGroup) {
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			pairs := []string{"Device", g.label(id)}
			if all := g.InstanceStats[id].Stats; all != nil {
				for _, name := range slices.Sorted(maps.Keys(all.Attributes)) {
					pairs = append(pairs, name, all.Attributes[name].String())
				}
			}
			s.title("Device Stats")
			s.pairs(pairs...)
			s.printf("")
		}
	}
}
