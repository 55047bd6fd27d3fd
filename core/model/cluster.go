// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// MaxClusterTerms is the number of leader terms that a Cluster keeps.
const MaxClusterTerms = 256

// Cluster identifies the cluster to which a state belongs, and the leaders that wrote
// it. Every leader begins its term with a random id, so two states that contain the
// same term have the same history up to the end of that term. A Cluster is shared and
// must not be changed.
type Cluster struct {
	// ID is created once, by the first leader. Snapshots contain it.
	ID string
	// Terms are the newest terms, oldest first.
	Terms []ClusterTerm
	// Level is the capability level: which commands the log may contain. 0 means 1, the
	// level of the first release. It becomes higher when all servers are new enough, and
	// never lower. Release is the release that raised it, for messages.
	Level   int
	Release string
}

// ClusterTerm is the term of one leader.
type ClusterTerm struct {
	ID string
	// Index is the index of the log entry that began the term.
	Index uint64
	// After is the index of the previous log entry, at which the previous term ended.
	After uint64
}

// ClusterPoint is a position in the history of a cluster. The zero point precedes
// every history.
type ClusterPoint struct {
	ClusterID string
	TermID    string
	Index     uint64
}

// Begin returns the cluster with an additional term. clusterID is used only if c is
// nil.
func (c *Cluster) Begin(clusterID string, term ClusterTerm) *Cluster {
	out := &Cluster{ID: clusterID}
	if c != nil {
		out.ID, out.Level, out.Release = c.ID, c.Level, c.Release
		out.Terms = append(out.Terms, c.Terms[max(0, len(c.Terms)-MaxClusterTerms+1):]...)
	}
	out.Terms = append(out.Terms, term)
	return out
}

// At returns the position of a state at an index.
func (c *Cluster) At(index uint64) ClusterPoint {
	if c == nil {
		return ClusterPoint{Index: index}
	}
	return ClusterPoint{ClusterID: c.ID, TermID: c.TermID(), Index: index}
}

// TermID returns the id of the newest term, "" if there is none.
func (c *Cluster) TermID() string {
	if c == nil || len(c.Terms) == 0 {
		return ""
	}
	return c.Terms[len(c.Terms)-1].ID
}

// Lacks reports whether the history has lost a position that it once contained: the
// term of the position is unknown, or ended before it. The result is final only for a
// state that contains all of its newest term; an older state may not have the position
// yet. A position in another cluster counts as lost.
func (c *Cluster) Lacks(p ClusterPoint) bool {
	if p.ClusterID == "" {
		return false
	}
	if c == nil || c.ID != p.ClusterID {
		return true
	}
	if p.TermID == "" {
		return false // the client has seen nothing yet
	}
	for i, t := range c.Terms {
		if t.ID == p.TermID {
			return i+1 < len(c.Terms) && p.Index > c.Terms[i+1].After
		}
	}
	return true
}
