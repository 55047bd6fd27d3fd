// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const allegianceKey = "node/cluster"

// reasonBehind is the reason code of a session that ended because its server lags behind
// what the node has seen of another one.
const reasonBehind = "server_behind"

func isBehind(err error) bool { return errdefs.ReasonOf(err) == reasonBehind }

// allegiance is the cluster to which the node belongs and the position of the
// cluster's history that it has seen. It is stored on disk: servers that have lost
// their data, in part or whole, must not end tasks because they do not know them.
type allegiance struct {
	store Store

	mu   sync.Mutex
	seen model.ClusterPoint // on disk; without a ClusterID in memory only
	// lost means that the servers lack data that the node has seen. seen then stays as it
	// is, so that the node recognizes restored data.
	lost     bool
	stranger bool          // the last servers that answered belong to another cluster
	met      chan struct{} // closed when servers of the node's cluster have answered
}

func (g *allegiance) load(ctx context.Context, store Store) error {
	g.store, g.met = store, make(chan struct{})
	body, err := store.Get(ctx, allegianceKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &g.seen); err != nil {
		return errdefs.Internalf("what the node has kept of its cluster is damaged; remove the node's state directory, its tasks are lost then: %w", err)
	}
	return nil
}

func (g *allegiance) point() model.ClusterPoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// doubts reports whether allocs must not be stopped because servers do not have them.
func (g *allegiance) doubts() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// keep stores a position before it takes effect. The caller holds the lock.
func (g *allegiance) keep(ctx context.Context, next model.ClusterPoint) error {
	if next == g.seen {
		return nil
	}
	body, err := json.Marshal(next)
	if err != nil {
		return errdefs.Internalf("encode the stored data of the cluster: %w", err)
	}
	if err := g.store.Put(ctx, allegianceKey, body); err != nil {
		return err
	}
	g.seen = next
	return nil
}

// answered records the cluster of servers that have answered: the first becomes the
// node's cluster, others are refused. Servers that do not report it are accepted by a
// node without a cluster.
func (g *allegiance) answered(ctx context.Context, clusterID string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.join(ctx, clusterID)
}

func (g *allegiance) join(ctx context.Context, clusterID string) error {
	if g.seen.ClusterID == "" && clusterID != "" {
		if err := g.keep(ctx, model.ClusterPoint{ClusterID: clusterID}); err != nil {
			return err
		}
	}
	if g.seen.ClusterID != clusterID {
		g.refused()
		return rpc.OtherCluster(g.seen.ClusterID, clusterID)
	}
	g.stranger = false
	return nil
}

// turnedAway records that servers of another cluster have refused the node.
func (g *allegiance) turnedAway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused()
}

func (g *allegiance) refused() {
	g.stranger = true
	select {
	case <-g.met:
	default:
		close(g.met)
	}
}

// hear records an assignment's position before it is acted on. It reports whether the
// servers have begun or ceased to lack what this node has seen.
func (g *allegiance) hear(ctx context.Context, x *rpc.Assignments) (turned bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.join(ctx, x.ClusterID); err != nil {
		return false, err
	}
	if x.Full && x.Confirmed {
		turned, g.lost = g.lost != x.Lost, x.Lost
	}
	if g.lost {
		return turned, nil
	}
	if x.Index < g.seen.Index {
		return false, errdefs.WithReason(errdefs.Unavailablef("the server (index %d) is behind the newest index that this node has seen (%d)", x.Index, g.seen.Index), reasonBehind)
	}
	next := model.ClusterPoint{ClusterID: x.ClusterID, TermID: x.TermID, Index: x.Index}
	if x.ClusterID == "" {
		g.seen = next
		return turned, nil
	}
	if x.Confirmed {
		err = g.keep(ctx, next)
	}
	return turned, err
}

// trust lets the node join the cluster that answers next.
func (g *allegiance) trust(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.keep(ctx, model.ClusterPoint{}); err != nil {
		return err
	}
	g.stranger, g.lost = false, false
	return nil
}

// state returns the node's report.
func (g *allegiance) state() rpc.NodeCluster {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := rpc.NodeCluster{ClusterID: g.seen.ClusterID, Index: g.seen.Index, Standing: rpc.ClusterBelieved}
	switch {
	case g.stranger:
		out.Standing = rpc.ClusterRefused
	case g.lost:
		out.Standing = rpc.ClusterDoubted
	}
	return out
}

// Stranger returns a channel that is closed once servers of another cluster have
// answered: the node does not register with them until an operator agrees.
func (s *Session) Stranger() <-chan struct{} { return s.cluster.met }

// hear processes the position of assignments before they are acted on. If the history
// turns out to be another one, the node's knowledge of its allocs is void, and all of
// them are requested again.
func (s *Session) hear(ctx context.Context, x *rpc.Assignments) error {
	turned, err := s.cluster.hear(ctx, x)
	if err != nil || !turned {
		return err
	}
	s.parts.Allocs.ForgetKnown()
	if !x.Lost {
		s.cfg.Logger.Info("the servers have the data again that this node has seen from them; the node trusts them")
		return nil
	}
	const what = "The servers have lost what they had told this node: an older copy of their data was put back"
	s.cfg.Logger.Error(what+". Allocs that they do not know run on; run `drover node trust` on this machine to have them stopped", "allocs", s.parts.Allocs.Unassigned(x))
	s.AddEvents([]*model.NodeEvent{{
		Subsystem: "Cluster", Timestamp: time.Now().UTC(), Message: what + "; allocs that they do not know run on until `drover node trust` is run",
	}})
	s.Touch()
	return nil
}

// Standing tells which cluster the node belongs to and whether it believes it.
func (s *Session) Standing() rpc.NodeCluster { return s.cluster.state() }

// Trust makes the node begin a new session with whichever cluster answers.
func (s *Session) Trust(ctx context.Context) error {
	before := s.cluster.state()
	if err := s.cluster.trust(ctx); err != nil {
		return err
	}
	s.parts.Allocs.ForgetKnown()
	s.cfg.Logger.Warn("an operator made the node trust its servers: allocs that they do not know are stopped", "cluster_before", before.ClusterID)
	select {
	case s.trusted <- struct{}{}:
	default:
	}
	return nil
}
