// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/allocs"
	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// pusher is a server that pushes once and notes what is fetched.
type pusher struct {
	rpc.Servers
	push    *rpc.Assignments
	fetched []string
}

func (p *pusher) Register(context.Context, *model.Node) (rpc.Lease, error) {
	return rpc.Lease{TTL: time.Minute}, nil
}

func (p *pusher) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{TTL: time.Minute}, nil
}

func (p *pusher) Attach(ctx context.Context, _ rpc.Identity, _ rpc.Node, push func(*rpc.Assignments) error) error {
	if err := push(p.push); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p *pusher) FetchAllocs(_ context.Context, _ rpc.Identity, ids []string) (list []*model.Allocation, err error) {
	p.fetched = append(p.fetched, ids...)
	for _, id := range ids {
		list = append(list, &model.Allocation{ID: id})
	}
	return list, nil
}

// keeper is a node that needs all allocs and keeps them.
type keeper struct {
	idle
	has []string
}

func (k *keeper) Apply(ctx context.Context, x *rpc.Assignments, _ bool, fetch allocs.Fetch) error {
	var ids []string
	for _, y := range x.Set {
		ids = append(ids, y.AllocID)
	}
	list, err := fetch(ctx, ids)
	for _, a := range list {
		k.has = append(k.has, a.ID)
	}
	return err
}

func TestOnlyAllocsThatDidNotComeWithTheAssignmentsAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pusher{push: &rpc.Assignments{
			Index: 1, Full: true, Confirmed: true, Set: []rpc.Assignment{{AllocID: "a"}, {AllocID: "b"}, {AllocID: "c"}},
			Fresh: []*model.Allocation{{ID: "a"}, {ID: "c"}, {ID: "of nobody"}},
		}}
		k := &keeper{}
		ctx, cancel := context.WithCancel(t.Context())
		s, err := session.New(ctx, session.Config{Servers: p, Store: memory{}, NodeID: "n", Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		s.Bind(session.Parts{Node: func() *model.Node { return &model.Node{ID: "n"} }, Allocs: k, Updates: idle{}, Schemas: idle{}, Releases: func() {}})
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		synctest.Wait()
		cancel()
		<-ended
		slices.Sort(k.has)
		if !slices.Equal(k.has, []string{"a", "b", "c"}) || !slices.Equal(p.fetched, []string{"b"}) {
			t.Errorf("the node has %v and fetched %v", k.has, p.fetched)
		}
	})
}
