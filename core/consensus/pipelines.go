// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipelines is raft's transport, except that a server that stops ends its pipelines. Raft
// waits for ever for one whose answers nobody reads any more: its reader stops at once,
// and its writer only when there is room for another request.
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

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.of.mu.Lock()
	delete(p.of.open, p)
	p.of.mu.Unlock()
	return p.AppendPipeline.Close()
}
