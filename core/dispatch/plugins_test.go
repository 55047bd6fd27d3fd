// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

func pluginSpec(pool string) *model.PluginSpec {
	return &model.PluginSpec{
		Name: "p", NodePool: pool, MaxParallel: 1, HealthyDeadline: time.Minute,
		Release: &model.PluginRelease{Version: "1", Digest: "sha256:0", Source: "/p"},
	}
}

// stepTo stores a step of the roll-out.
func (s *servers) stepTo(t *testing.T, status string, ids ...string) {
	t.Helper()
	r := &model.PluginRollout{Status: status}
	for _, id := range ids {
		r.InFlight = append(r.InFlight, &model.PluginAdmission{NodeID: id, Deadline: 1})
	}
	s.log.write(t, &fsm.StepPluginRollout{Name: "p", Index: s.store.View().PluginSpecByName("p").ModifyIndex, Rollout: r})
	synctest.Wait()
}

// asked reports whether the node was told to ask for its plugins, and forgets it.
func asked(t *testing.T, pushed chan *rpc.Assignments) bool {
	t.Helper()
	synctest.Wait()
	told := false
	for len(pushed) > 0 {
		a := <-pushed
		told = told || a.Plugins
		if a.Full {
			t.Fatal("everything was pushed again")
		}
	}
	return told
}

func (s *servers) wanted(t *testing.T, id string) []rpc.WantedPlugin {
	t.Helper()
	answer, err := s.Plugins(t.Context(), identity(id))
	if err != nil || !answer.Confirmed || answer.Index == 0 {
		t.Fatalf("node %s is answered %+v, %v", id, answer, err)
	}
	return answer.Plugins
}

func TestOnlyNodesThatAStepConcernsAreToldToAskForTheirPlugins(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		one, _ := s.attach(ctx, idN1, nil)
		two, _ := s.attach(ctx, idN2, nil)
		synctest.Wait()
		for _, pushed := range []chan *rpc.Assignments{one, two} {
			for len(pushed) > 0 {
				<-pushed
			}
		}
		want := func(what string, first, second bool) {
			t.Helper()
			if a, b := asked(t, one), asked(t, two); a != first || b != second {
				t.Errorf("%s: n1 told %v, n2 told %v; want %v, %v", what, a, b, first, second)
			}
		}
		s.log.write(t, &fsm.RegisterPlugin{Spec: pluginSpec("")})
		want("a registration", false, false)
		s.stepTo(t, model.PluginRolloutRunning, idN1)
		want("an admission", true, false)
		if got := s.wanted(t, idN1); len(got) != 1 || got[0].Release == nil || got[0].Release.Version != "1" {
			t.Errorf("n1 is to have %+v", got)
		}
		if got := s.wanted(t, idN2); len(got) != 1 || got[0].Release != nil {
			t.Errorf("n2 is to have %+v", got)
		}
		s.stepTo(t, model.PluginRolloutRunning, idN2)
		want("the next admission", true, true)
		s.stepTo(t, model.PluginRolloutComplete)
		want("the end", true, true)
		s.log.write(t, &fsm.RegisterPlugin{Spec: pluginSpec("gpu")})
		want("other nodes", true, true)
		if got := s.wanted(t, idN1); len(got) != 0 {
			t.Errorf("a node that the plugin is not for is to have %+v", got)
		}
		s.log.write(t, &fsm.DeletePlugin{Name: "p"})
		want("a deletion", true, true)
	})
}

func TestOnlyNodesAreToldOfPlugins(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		thief := rpc.Identity{NodeID: idN1, SecretID: "guessed"}
		if _, err := s.Plugins(ctx, thief); !errdefs.IsPermissionDenied(err) {
			t.Errorf("plugins: %v", err)
		}
		if err := s.PluginFile(ctx, thief, "sha256:0", nil); !errdefs.IsPermissionDenied(err) {
			t.Errorf("a file: %v", err)
		}
		if err := s.PluginFile(ctx, identity(idN1), "sha256:0", nil); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a file of a server that keeps none: %v", err)
		}
	})
}
