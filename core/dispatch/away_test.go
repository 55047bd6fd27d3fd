// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

func TestANodeThatSaidItWillBeBackIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		status := func(id string) string {
			synctest.Wait()
			return s.store.View().NodeByID(id).Status
		}
		for _, id := range []string{idN1, idN2, idN9} {
			s.register(t, id)
			session, end := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = s.Attach(session, identity(id), nil, func(*rpc.Assignments) error { return nil })
			}()
			synctest.Wait()
			if id != idN9 {
				if err := s.Away(ctx, identity(id)); err != nil {
					t.Fatal(err)
				}
			}
			end()
			<-done
		}
		time.Sleep(10 * time.Second)
		if status(idN9) != model.NodeStatusDown || status(idN1) != model.NodeStatusReady || status(idN2) != model.NodeStatusReady {
			t.Errorf("after 10 s: broken is %s, back %s, gone %s", status(idN9), status(idN1), status(idN2))
		}
		s.sleep(30 * time.Second) // the server was silent itself, which does not shorten the wait
		time.Sleep(dispatch.AwayTTL - 45*time.Second)
		s.register(t, idN1)
		if status(idN2) != model.NodeStatusReady {
			t.Error("it was not waited for")
		}
		time.Sleep(6 * time.Second)
		if status(idN2) != model.NodeStatusDown || status(idN1) != model.NodeStatusReady {
			t.Errorf("in the end: gone is %s, back %s", status(idN2), status(idN1))
		}
		time.Sleep(4 * time.Second)
		if status(idN1) != model.NodeStatusDown { // its lease is an ordinary one again
			t.Errorf("back is %s", status(idN1))
		}
	})
}
