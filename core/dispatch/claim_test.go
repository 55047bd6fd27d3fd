// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestOfTwoAgentsWithOneIdentityTheFirstIsTheNodeAndNothingIsWrittenForTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := start(t, ctx)
		as := func(instance string) (rpc.Identity, *model.Node) {
			id, n := identity(idN1), node(idN1)
			id.Instance, n.Instance = instance, instance
			return id, n
		}
		first, n1 := as("first")
		second, n2 := as("second")
		if _, err := s.Register(ctx, n1); err != nil {
			t.Fatal(err)
		}
		session, end := context.WithCancel(ctx)
		go func() { _ = s.Attach(session, first, nil, func(*rpc.Assignments) error { return nil }) }()
		synctest.Wait()
		writes := s.log.writes.Load()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			_, register := s.Register(ctx, n2)
			_, beat := s.Beat(ctx, second)
			_, update := s.UpdateAllocs(ctx, second, nil)
			attach := s.Attach(ctx, second, nil, nil)
			for what, err := range map[string]error{"register": register, "beat": beat, "update": update, "attach": attach} {
				if !errdefs.IsAlreadyExists(err) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if _, err := s.Beat(ctx, first); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.log.writes.Load(); got != writes {
			t.Errorf("%d entries were written for the other agent", got-writes)
		}
		if s.store.View().NodeByID(idN1).Instance != "" {
			t.Error("the instance is stored")
		}
		end() // the first agent ends: the next one may come at once
		synctest.Wait()
		if _, err := s.Register(ctx, n2); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAgentThatCameBackWithoutAWordOfItsEndWaitsForALeaseAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := start(t, ctx)
		n := node(idN1)
		n.Instance = "before the power cut"
		if _, err := s.Register(ctx, n); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		n = node(idN1)
		n.Instance = "after"
		for {
			_, err := s.Register(ctx, n)
			if err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		if d := time.Since(begun); d != 8*time.Second {
			t.Errorf("it was refused for %s", d)
		}
	})
}

func TestAServerThatSleptLongerThanALeaseHearsItsNodesBeforeItJudgesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := start(t, ctx)
		for _, id := range []string{idN1, idN2, idN9} {
			if _, err := s.Register(ctx, node(id)); err != nil {
				t.Fatal(err)
			}
		}
		session, end := context.WithCancel(ctx)
		go func() { _ = s.Attach(session, identity(idN2), nil, func(*rpc.Assignments) error { return nil }) }()
		status := func(id string) string { return s.store.View().NodeByID(id).Status }
		synctest.Wait()
		s.sleep(time.Minute)
		end()                       // the node has given this session up
		time.Sleep(7 * time.Second) // and takes its time
		for _, id := range []string{idN1, idN2} {
			if got := status(id); got != model.NodeStatusReady {
				t.Errorf("%s is %s though the server slept", id, got)
			}
			if _, err := s.Beat(ctx, identity(id)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		if status(idN1) != model.NodeStatusReady || status(idN2) != model.NodeStatusReady || status(idN9) != model.NodeStatusDown {
			t.Errorf("n1 is %s, n2 %s, the silent one %s", status(idN1), status(idN2), status(idN9))
		}
	})
}
