// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// namer signs nothing: a token says for whom it is.
type namer struct{}

func (namer) Sign(_ *state.View, a *model.Allocation, task string, id *model.WorkloadIdentity, _ time.Time) (string, error) {
	return a.Job.ID + "/" + a.ID + "/" + task + "/" + id.Name, nil
}

func (namer) Check(_ *state.View, token string, _ time.Time) error {
	if token != "good" {
		return errdefs.PermissionDeniedf("%s", token)
	}
	return nil
}

func TestANodeGetsTokensOnlyForLivingTasksThatItHas(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		s.place(t, idN1, "a1")
		job := s.store.View().AllocWithJob(s.store.View().AllocByID("a1")).Job
		task := job.TaskGroups[0].Tasks[0].Name
		ask := rpc.IdentityQuery{AllocID: "a1", Task: task, Names: []string{"default"}}
		got, err := s.Identities(ctx, identity(idN1), ask)
		if err != nil || len(got.Tokens) != 1 || got.Tokens[0].JWT != job.ID+"/a1/"+task+"/default" {
			t.Fatalf("%+v, %v", got, err)
		}
		refused := func(what string, id rpc.Identity, change func(*rpc.IdentityQuery), class func(error) bool) {
			t.Helper()
			q := ask
			change(&q)
			if got, err := s.Identities(ctx, id, q); !class(err) || len(got.Tokens) > 0 {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
		same := func(*rpc.IdentityQuery) {}
		refused("another node", identity(idN2), same, errdefs.IsPermissionDenied)
		refused("a stranger", rpc.Identity{NodeID: idN1, SecretID: "guess"}, same, errdefs.IsPermissionDenied)
		refused("another alloc", identity(idN1), func(q *rpc.IdentityQuery) { q.AllocID = "b1" }, errdefs.IsPermissionDenied)
		refused("another task", identity(idN1), func(q *rpc.IdentityQuery) { q.Task = "x" }, errdefs.IsInvalidArgument)
		refused("another identity", identity(idN1), func(q *rpc.IdentityQuery) { q.Names = []string{"x"} }, errdefs.IsInvalidArgument)
		refused("too much", identity(idN1), func(q *rpc.IdentityQuery) { q.Names = []string{strings.Repeat("x", 5000)} }, errdefs.IsInvalidArgument)
		if err := s.CheckToken(ctx, identity(idN1), "good"); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"bad", strings.Repeat("x", 9<<10)} {
			if err := s.CheckToken(ctx, identity(idN1), bad); err == nil {
				t.Errorf("%.10q is accepted", bad)
			}
		}
		if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{{ID: "a1", ClientStatus: model.AllocClientStatusComplete}}); err != nil {
			t.Fatal(err)
		}
		refused("an alloc that has ended", identity(idN1), same, errdefs.IsPermissionDenied)
	}, func(c *dispatch.Config) { c.Identities = namer{} })
}
