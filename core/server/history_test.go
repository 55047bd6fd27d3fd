// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

const (
	pastDeployment = "dddd0000-0000-4000-8000-000000000001"
	pastEval       = "eeee0000-0000-4000-8000-000000000001"
)

// keepsHistory switches the history on.
func keepsHistory(cfg *server.Config) {
	cfg.History = server.History{MaxAge: time.Hour, MaxBytes: 1 << 20}
}

// collectOne writes an ended evaluation and a deployment that is removed with it.
func collectOne(t *testing.T, m *testkit.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	job := &model.Job{ID: "web", Name: "web", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t"}}}}}
	ended := &model.Evaluation{ID: pastEval, Namespace: "default", JobID: "web", Type: "service", Status: model.EvalStatusComplete}
	commit := func(cmds ...fsm.Command) {
		t.Helper()
		for _, cmd := range cmds {
			if _, err := propose.Commands(ctx, m.Raft(), cmd); err != nil {
				t.Fatalf("%T: %v", cmd, err)
			}
		}
	}
	commit(
		&fsm.UpsertJob{Job: job},
		&fsm.ApplyPlan{Plan: &model.Plan{Job: job, Deployment: &model.Deployment{ID: pastDeployment, Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning}}},
		&fsm.UpsertEvals{Evals: []*model.Evaluation{ended}},
	)
	testkit.Eventually(t, "the deployment has ended, as it has no group", func() bool {
		return !m.Endpoint().Store.View().DeploymentByID(pastDeployment).Active()
	})
	commit(
		&fsm.DeleteEvals{EvalIDs: []string{pastEval}},
		&fsm.DeleteDeployments{IDs: []string{pastDeployment}},
	)
}

// remembers waits until a client of a server is shown what was collected.
func remembers(t *testing.T, m *testkit.Member) {
	t.Helper()
	c, err := client.New(client.Config{Address: m.URL})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, m.Address+" shows what was collected", func() bool {
		d, _, err := c.PastDeployment(t.Context(), pastDeployment, nil)
		e, _, failed := c.PastEvaluation(t.Context(), pastEval, true, nil)
		return err == nil && failed == nil && !d.CollectedAt.IsZero() && !e.CollectedAt.IsZero() && e.JobID == "web"
	})
}

func TestWhatWasCollectedIsShownAfterARestartAndByANewLeader(t *testing.T) {
	c := testkit.NewServers(t, 3, keepsHistory)
	collectOne(t, c.Leader())
	for _, m := range c.All { // any server answers for the leader
		remembers(t, m)
	}
	first := c.Leader()
	first.Stop()
	second := c.Leader()
	remembers(t, second)
	api, err := client.New(client.Config{Address: second.URL})
	if err != nil {
		t.Fatal(err)
	}
	list, meta, err := api.PastDeployments(t.Context(), nil)
	if err != nil || len(list) != 1 || meta.History[:len("server ")+36] != fmt.Sprint("server ", second.ID()) {
		t.Errorf("%d deployments, %q, %v", len(list), meta.History, err)
	}
	first.Start()
	remembers(t, first)
}
