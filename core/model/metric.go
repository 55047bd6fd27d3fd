// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// AllocMetric explains a placement or its absence in the scheduler's own words.
type AllocMetric struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int // by datacenter
	ClassFiltered      map[string]int // by node class
	ConstraintFiltered map[string]int // by constraint or filter reason
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int // by resource
	QuotaExhausted     []string
	ResourcesExhausted map[string]*Resources // by task
	Scores             map[string]float64    // deprecated by ScoreMetaData
	ScoreMetaData      []*NodeScoreMeta
	AllocationTime     time.Duration
	CoalescedFailures  int
}

// NodeScoreMeta is the score of one node. Scores has each part of it by the name of
// its rule.
type NodeScoreMeta struct {
	NodeID    string
	Scores    map[string]float64
	NormScore float64
}
