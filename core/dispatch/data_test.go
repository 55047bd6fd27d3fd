// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// mover is a job whose data moves, with an alloc "a0" of a node that "b0" of another
// replaces.
func (s *servers) mover(t *testing.T, disk *model.EphemeralDisk) {
	t.Helper()
	s.register(t, idN1)
	s.register(t, idNear)
	j := job()
	j.TaskGroups[0].EphemeralDisk = disk
	s.log.write(t, &fsm.UpsertJob{Job: j})
	s.place(t, idN1, "a0")
	next := placement(s.store.View(), idNear, "b0").(*fsm.ApplyPlan)
	next.Plan.Place[0].PreviousAllocation = "a0"
	s.log.write(t, next)
}

var diskMoves = &model.EphemeralDisk{Sticky: true, Migrate: true, SizeMB: 10}

// source is a node that sends the data of its allocs.
type source struct {
	asked chan rpc.DataRequest
	hold  chan struct{} // closed: the rest may come
}

func (n source) Call(ctx context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	var q rpc.DataRequest
	if err := json.Unmarshal(call.Body, &q); err != nil {
		return err
	}
	n.asked <- q
	if err := send([]byte("first ")); err != nil {
		return err
	}
	select {
	case <-n.hold:
		return send([]byte("last"))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetchData fetches as a node does; what has come is told by the channels.
func (s *servers) fetchData(ctx context.Context, id rpc.Identity, alloc string) (data, waits *string, ended chan error) {
	data, waits, ended = new(string), new(string), make(chan error, 1)
	go func() {
		ended <- s.AllocData(ctx, id, alloc, func(p *rpc.DataPiece) error {
			*data += string(p.Data)
			if p.Waits != "" {
				*waits = p.Waits
			}
			return nil
		})
	}()
	return data, waits, ended
}

func TestDataIsPassedOnWhenTheAllocBeforeHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.mover(t, diskMoves)
		n := source{make(chan rpc.DataRequest, 1), make(chan struct{})}
		s.attach(ctx, idN1, n)
		data, waits, ended := s.fetchData(ctx, identity(idNear), "b0")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if len(n.asked) != 0 || *waits == "" {
			t.Fatalf("the node was asked before its alloc had ended; %q", *waits)
		}
		s.beat(t, ctx, idN1, idNear)
		s.reports(t, ctx, "a0", model.AllocClientStatusComplete, model.TaskStateDead)
		time.Sleep(time.Second)
		if q := <-n.asked; q.AllocID != "a0" || len(q.Tasks) != 1 || q.Tasks[0] != "t" {
			t.Errorf("asked for %+v", q)
		}
		close(n.hold)
		if err := <-ended; err != nil || *data != "first last" {
			t.Errorf("%q, %v", *data, err)
		}
	})
}

// beat keeps nodes alive.
func (s *servers) beat(t *testing.T, ctx context.Context, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Beat(ctx, identity(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDataThatIsLostIsSaidToBeSoAlsoInTheMiddle(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.mover(t, diskMoves)
		n := source{make(chan rpc.DataRequest, 1), make(chan struct{})}
		s.attach(ctx, idN1, n)
		synctest.Wait() // a node without a session is lost at once
		s.reports(t, ctx, "a0", model.AllocClientStatusComplete, model.TaskStateDead)
		_, _, ended := s.fetchData(ctx, identity(idNear), "b0")
		synctest.Wait()
		if len(n.asked) != 1 {
			t.Fatalf("%d requests reached the node", len(n.asked))
		}
		// The source falls silent, but its connection stays: it is down after its lease.
		for range 60 {
			time.Sleep(time.Second)
			s.beat(t, ctx, idNear)
		}
		select {
		case err := <-ended:
			if !errdefs.IsNotFound(err) {
				t.Errorf("in the middle: %v", err)
			}
		default:
			t.Error("it waits for a node that is lost")
		}
		if err := s.AllocData(ctx, identity(idNear), "b0", func(*rpc.DataPiece) error { return nil }); !errdefs.IsNotFound(err) {
			t.Errorf("from the beginning: %v", err)
		}
	})
}

func TestANodeGetsOnlyTheDataThatOneOfItsAllocsReplaces(t *testing.T) {
	none := func(*rpc.DataPiece) error { return nil }
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.mover(t, diskMoves)
		s.reports(t, ctx, "a0", model.AllocClientStatusComplete, model.TaskStateDead)
		for what, err := range map[string]error{
			"another node's alloc": s.AllocData(ctx, identity(idN1), "b0", none),
			"no alloc":             s.AllocData(ctx, identity(idNear), "nothing", none),
			"the alloc itself":     s.AllocData(ctx, identity(idNear), "a0", none),
			"a guessed secret":     s.AllocData(ctx, rpc.Identity{NodeID: idNear, SecretID: "guess"}, "b0", none),
		} {
			if !errdefs.IsPermissionDenied(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.AllocData(ctx, identity(idNear), "b0", none); !errdefs.IsUnavailable(err) {
			t.Errorf("a source without a session: %v", err)
		}
	})
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.mover(t, diskMoves)
		if err := s.AllocData(ctx, identity(idNear), strings.Repeat("x", 1<<20), none); !errdefs.IsInvalidArgument(err) || len(err.Error()) > 1024 {
			t.Errorf("a huge id: %.200v", err)
		}
	})
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.mover(t, &model.EphemeralDisk{Sticky: true, SizeMB: 10})
		s.reports(t, ctx, "a0", model.AllocClientStatusComplete, model.TaskStateDead)
		if err := s.AllocData(ctx, identity(idNear), "b0", none); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a disk that does not move: %v", err)
		}
	})
}
