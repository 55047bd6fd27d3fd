// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// MaxClusterTerms is how many terms of leaders a Cluster remembers.
const MaxClusterTerms = 256

// Cluster says which cluster a state belongs to, and by which leaders it was
// written. Every leader begins its term with an id of its own, so two states that
// have the same term have the same history up to the end of that term. It is
// shared and must not be changed.
type Cluster struct {
	// ID is made once, by the first leader. Snapshots carry it.
	ID string
	// Terms are the newest terms, the oldest of them first.
	Terms []ClusterTerm
}

// ClusterTerm is the time of one leader.
type ClusterTerm struct {
	ID string
	// Index is that of the log entry which began the term.
	Index uint64
	// After is the index of the entry before it: there the term before ended.
	After uint64
}

// ClusterPoint is a place in the history of a cluster. The zero point is before
// every history.
type ClusterPoint struct {
	ClusterID string
	TermID    string
	Index     uint64
}

// Begin returns the cluster with a further term. The id of the cluster is used
// only if c is nil.
func (c *Cluster) Begin(clusterID string, term ClusterTerm) *Cluster {
	out := &Cluster{ID: clusterID}
	if c != nil {
		out.ID = c.ID
		out.Terms = append(out.Terms, c.Terms[max(0, len(c.Terms)-MaxClusterTerms+1):]...)
	}
	out.Terms = append(out.Terms, term)
	return out
}

// At returns the point of a state at an index.
func (c *Cluster) At(index uint64) ClusterPoint {
	if c == nil {
		return ClusterPoint{Index: index}
	}
	return ClusterPoint{ClusterID: c.ID, TermID: c.TermID(), Index: index}
}

// TermID is the id of the newest term, "" if there is none.
func (c *Cluster) TermID() string {
	if c == nil || len(c.Terms) == 0 {
		return ""
	}
	return c.Terms[len(c.Terms)-1].ID
}

// Lacks reports whether the history has lost a point that was once in it: the
// term of the point is unknown, or ended before it. It holds for a state that has
// everything of its newest term; of an older one it only says "not yet". A point
// of another cluster is lost, too.
func (c *Cluster) Lacks(p ClusterPoint) bool {
	if p.ClusterID == "" {
		return false
	}
	if c == nil || c.ID != p.ClusterID {
		return true
	}
	if p.TermID == "" {
		return false // nothing was seen of it yet
	}
	for i, t := range c.Terms {
		if t.ID == p.TermID {
			return i+1 < len(c.Terms) && p.Index > c.Terms[i+1].After
		}
	}
	return true
}
