// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"cmp"
	"strconv"
	"strings"
)

// unit is the dimension of a unit and its size in base units.
type unit struct {
	dimension string
	factor    float64
}

// units are the units of sdk/device/v1; units of bytes also exist as rates.
var units = map[string]unit{
	"": {"", 1}, "Hz": {"frequency", 1}, "kHz": {"frequency", 1e3}, "MHz": {"frequency", 1e6}, "GHz": {"frequency", 1e9},
	"mW": {"power", 1e-3}, "W": {"power", 1}, "kW": {"power", 1e3}, "MW": {"power", 1e6}, "GW": {"power", 1e9},
	"B": {"bytes", 1}, "kB": {"bytes", 1e3}, "MB": {"bytes", 1e6}, "GB": {"bytes", 1e9}, "TB": {"bytes", 1e12},
	"KiB": {"bytes", 1 << 10}, "MiB": {"bytes", 1 << 20}, "GiB": {"bytes", 1 << 30}, "TiB": {"bytes", 1 << 40},
}

func unitOf(name string) (unit, bool) {
	if base, rate := strings.CutSuffix(name, "/s"); rate {
		u, ok := units[base]
		return unit{"bytes per second", u.factor}, ok && u.dimension == "bytes"
	}
	u, ok := units[name]
	return u, ok
}

// quantity parses "40 GiB", "40GiB" or "40" to base units.
func quantity(text string) (value float64, dimension string, ok bool) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	v, err := strconv.ParseFloat(text[:end], 64)
	u, known := unitOf(strings.TrimSpace(text[end:]))
	return v * u.factor, u.dimension, err == nil && known
}

// compareQuantities compares two quantities of the same dimension.
func compareQuantities(l, r string) (order int, ok bool) {
	lv, ld, lok := quantity(l)
	rv, rd, rok := quantity(r)
	return cmp.Compare(lv, rv), lok && rok && ld == rd
}

// matchDevice is match for attributes of devices, whose numbers have units.
func (c *Checker) matchDevice(operand, l, r string, lok, rok bool) bool {
	if order, ok := compareQuantities(l, r); ok && lok && rok {
		switch operand {
		case "=", "==", "is":
			return order == 0
		case "!=", "not":
			return order != 0
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		case ">=":
			return order >= 0
		}
	}
	return c.m.match(operand, l, r, lok, rok)
}
