// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Operators of a Constraint. The first row compares two interpolated values.
const (
	ConstraintDistinctProperty  = "distinct_property"
	ConstraintDistinctHosts     = "distinct_hosts"
	ConstraintRegex             = "regexp"
	ConstraintVersion           = "version"
	ConstraintSemver            = "semver"
	ConstraintSetContains       = "set_contains"
	ConstraintSetContainsAll    = "set_contains_all"
	ConstraintSetContainsAny    = "set_contains_any"
	ConstraintAttributeIsSet    = "is_set"
	ConstraintAttributeIsNotSet = "is_not_set"
)

// Constraint is a condition that a node must meet.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// String returns the constraint in readable form. Scheduling metrics use it as key.
func (c *Constraint) String() string { return c.LTarget + " " + c.Operand + " " + c.RTarget }

// Affinity is a soft constraint: Weight (-100..100) is added to the score of nodes
// that meet it.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8
}

// Spread distributes allocs over the values of an attribute.
type Spread struct {
	Attribute    string
	Weight       int8
	SpreadTarget []*SpreadTarget
}

// SpreadTarget is the share of allocs that one value should get.
type SpreadTarget struct {
	Value   string
	Percent uint8
}
