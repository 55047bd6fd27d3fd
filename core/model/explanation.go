// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Explanation says why something is as it is, in words, and, where placements are concerned,
// by group and node. It is derived from the state when somebody asks, and stored nowhere.
type Explanation struct {
	ID     string
	Says   []string // sentences, the most important first
	Groups []*GroupExplanation
}

// GroupExplanation says which nodes could run one more alloc of a group, in addition to what
// they run and to what is placed next, and why the others could not.
type GroupExplanation struct {
	Group   string
	Missing int // allocs for which there is no place
	Held    int `json:",omitempty"` // allocs that wait for dependencies, whether there is a place or not
	Absent  int `json:",omitempty"` // allocs that the group lacks and that nothing places now, whether there is a place or not
	Nodes   int // nodes of the cluster
	Open    int // those of them that could take one more alloc
	Classes []*ClassExplanation
	// Best are the open nodes with the highest scores, best first. Refused are the other nodes
	// that come closest to being open. On large clusters, neither list is complete.
	Best     []*NodeExplanation
	Refused  []*NodeExplanation
	Remedies []*Remedy
}

// ClassExplanation counts the nodes of one node class.
type ClassExplanation struct {
	Class   string // "" is the nodes without class
	Nodes   int
	Open    int
	Refused map[string]int // by reason
}

// NodeExplanation is what a group can expect of one node.
type NodeExplanation struct {
	ID         string
	Name       string
	Class      string
	Datacenter string
	NodePool   string

	Refused string // why it takes none, "" if it is open
	Lacks   []Lack // resources that are too little

	Score float64 // of an open node
	Parts []ScorePart
}

// Lack is a resource of which a node has too little.
type Lack struct {
	Resource string // "cpu" (MHz), "memory" or "disk" (MB), or the name by which a device is asked for
	Needs    int64
	Free     int64
}

// ScorePart is one part of the score of a node. The score is the sum of the parts by their
// weights; parts that do not apply have none, so that they do not dilute the others.
type ScorePart struct {
	Name   string
	Score  float64
	Weight float64
}

// Remedy is one change with which more allocs of a group would find a place: the scheduler
// was run on it.
type Remedy struct {
	Change  string
	Missing int // allocs that would still have no place
}
