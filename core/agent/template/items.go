// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"maps"
	"slices"
)

// Keys returns the names of the items, sorted.
func (v VariableItems) Keys() []string { return slices.Sorted(maps.Keys(v)) }

// Values returns the values of the items in the order of their names.
func (v VariableItems) Values() []string {
	out := make([]string, 0, len(v))
	for _, k := range v.Keys() {
		out = append(out, v[k].Value)
	}
	return out
}

// Tuples returns the items in the order of their names. Templates read them as .K and .V.
func (v VariableItems) Tuples() []VariableItem {
	out := make([]VariableItem, 0, len(v))
	for _, k := range v.Keys() {
		out = append(out, v[k])
	}
	return out
}

// K is the name of the item: Tuples of the reference have it under this name.
func (i VariableItem) K() string { return i.Key }

// V is the value of the item: see K.
func (i VariableItem) V() string { return i.Value }

// Metadata returns the metadata of the variable that the item is of.
func (i VariableItem) Metadata() VariableMeta { return i.Parent }

// Contains reports whether tag is one of the tags.
func (t Tags) Contains(tag string) bool { return slices.Contains(t, tag) }

// Node is the id of the node: the reference's language has it under this name.
func (s Service) Node() string { return s.NodeID }

// Metadata returns the metadata of the variable; it is empty if there are no items.
func (v VariableItems) Metadata() VariableMeta {
	for _, i := range v {
		return i.Parent
	}
	return VariableMeta{}
}

func itemsOf(v Variable) VariableItems {
	out := make(VariableItems, len(v.Items))
	for k, value := range v.Items {
		out[k] = VariableItem{Key: k, Value: value, Parent: v.Meta}
	}
	return out
}
