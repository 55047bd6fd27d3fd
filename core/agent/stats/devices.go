// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
)

// DeviceGroup has the measurements of a group of devices, with the reference's names.
type DeviceGroup struct {
	Vendor, Type, Name string
	InstanceStats      map[string]*DeviceStats // by the device's id
}

// DeviceStats is one sample of a device. Summary is the value to show first.
type DeviceStats struct {
	Summary   *DeviceValue
	Stats     *DeviceValues
	Timestamp time.Time
}

// DeviceValues are values by their names.
type DeviceValues struct {
	Nested     map[string]*DeviceValues
	Attributes map[string]*DeviceValue
}

// DeviceValue is a measured value; with a denominator it is a fraction of that.
type DeviceValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

// OfDevices converts the measurements of device plugins to the API's form.
func OfDevices(groups []device.GroupStats) []*DeviceGroup {
	var out []*DeviceGroup
	for _, g := range groups {
		one := &DeviceGroup{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*DeviceStats{}}
		for id, s := range g.Instances {
			values := &DeviceValues{Attributes: map[string]*DeviceValue{}}
			for name, v := range s.Values {
				values.Attributes[name] = valueOf(v)
			}
			one.InstanceStats[id] = &DeviceStats{Summary: values.Attributes[s.Summary], Stats: values, Timestamp: s.Time}
		}
		out = append(out, one)
	}
	return out
}

func valueOf(v device.Value) *DeviceValue {
	out := &DeviceValue{StringVal: v.Text, BoolVal: v.Bool, Unit: v.Unit, Desc: v.Description, IntNumeratorVal: v.Int, FloatNumeratorVal: v.Float}
	switch {
	case v.Of == nil:
	case v.Int != nil:
		whole := int64(*v.Of)
		out.IntDenominatorVal = &whole
	default:
		out.FloatDenominatorVal = v.Of
	}
	return out
}

// GivenTo is the part of all that a task was given.
func GivenTo(given []*model.AllocatedDeviceResource, all []*DeviceGroup) []*DeviceGroup {
	out := []*DeviceGroup{}
	for _, g := range all {
		one := &DeviceGroup{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*DeviceStats{}}
		for _, have := range given {
			if have.Vendor != g.Vendor || have.Type != g.Type || have.Name != g.Name {
				continue
			}
			for id, s := range g.InstanceStats {
				if slices.Contains(have.DeviceIDs, id) {
					one.InstanceStats[id] = s
				}
			}
		}
		if len(one.InstanceStats) > 0 {
			out = append(out, one)
		}
	}
	return out
}
