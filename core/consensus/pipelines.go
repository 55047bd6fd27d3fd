// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipelines is raft's transport, except that it ends pipelines that are stuck and pipelines
// of a server that stops. After a lost answer, or when it stops, raft no longer reads the
// answers of a pipeline. If it then sends another request before it notices, it waits
// forever for room in the pipeline: the follower gets heartbeats but no more entries, or
// the server never stops.
type pipelines struct {
	*raft.NetworkTransport
	mu    sync.Mutex
	open  map[raft.AppendPipeline]bool
	ended bool
}

// AppendEntriesPipeline implements raft.Transport.
func (t *pipelines) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		_ = p.Close() // the error is the one below
		return nil, raft.ErrTransportShutdown
	}
	out := &pipeline{AppendPipeline: p, of: t}
	t.open[out] = true
	return out, nil
}

// endPipelines ends all pipelines, now and later.
func (t *pipelines) endPipelines() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for p := range t.open {
		_ = p.(*pipeline).AppendPipeline.Close() // raft closes it again and has the error
	}
	clear(t.open)
}

type pipeline struct {
	raft.AppendPipeline
	of *pipelines
}

// stuckAfter is longer than the answers to all requests in a pipeline take: each has
// peerTimeout, and there are two.
const stuckAfter = 3 * peerTimeout

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(stuckAfter, func() { _ = p.Close() }) // then raft makes another one
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.of.mu.Lock()
	delete(p.of.open, p)
	p.of.mu.Unlock()
	return p.AppendPipeline.Close()
}
