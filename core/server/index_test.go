// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
)

var watched = []string{
	"/v1/jobs", "/v1/jobs?prefix=j1", "/v1/jobs?namespace=*", "/v1/job/j1", "/v1/job/j1/versions", "/v1/job/j1/summary",
	"/v1/job/j1/allocations", "/v1/job/j1/allocations?all=true", "/v1/job/j1/evaluations", "/v1/job/j1/deployments", "/v1/job/j1/deployment", "/v1/job/j1/scale",
	"/v1/allocations", "/v1/allocations?prefix=a1", "/v1/allocation/" + id("a1", 0), "/v1/node/" + id("d1", 0) + "/allocations",
	"/v1/evaluations", "/v1/evaluation/" + id("e1", 0) + "/allocations", "/v1/deployments", "/v1/deployment/allocations/" + id("f1", 0),
	"/v1/nodes", "/v1/node/" + id("d1", 0), "/v1/namespaces", "/v1/node/pools", "/v1/scaling/policies", "/v1/vars", "/v1/services", "/v1/schemas/drivers",
}

func id(kind string, n int) string { return fmt.Sprintf("%s000000-0000-0000-0000-%012d", kind, n) }

// randomWrite is a write or a removal of something that the watched routes show.
func randomWrite(rng *rand.Rand) fsm.Command {
	n := rng.IntN(4)
	job := fmt.Sprint("j", n%2+1) // what belongs to a job does so for ever
	switch rng.IntN(13) {
	case 0, 1:
		return &fsm.UpsertJob{Job: &model.Job{ID: job, Name: job, Namespace: "default", Type: "service", Priority: 50, NodePool: "default", Datacenters: []string{"*"},
			Meta: map[string]string{"v": fmt.Sprint(rng.IntN(100))}, TaskGroups: []*model.TaskGroup{{Name: "g", Count: rng.IntN(3), Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}}}}
	case 2:
		return &fsm.DeregisterJob{Namespace: "default", ID: job, Purge: rng.IntN(2) == 0}
	case 3:
		return &fsm.SetJobVersionTag{Namespace: "default", ID: job, Version: uint64(rng.IntN(3)), Tag: &model.JobVersionTag{Name: fmt.Sprint(rng.IntN(100))}}
	case 4:
		return &fsm.UpsertEvals{Evals: []*model.Evaluation{{ID: id("e1", n), Namespace: "default", JobID: job, Type: "service", Status: "complete"}}}
	case 5:
		return &fsm.DeleteEvals{EvalIDs: []string{id("e1", n)}}
	case 6:
		return &fsm.DeleteEvals{AllocIDs: []string{id("a1", n)}}
	case 7, 8:
		return &fsm.ApplyPlan{Plan: &model.Plan{Namespace: "default", JobID: job,
			Place:      []*model.Allocation{{ID: id("a1", n), Namespace: "default", JobID: job, TaskGroup: "g", NodeID: id("d1", 0), EvalID: id("e1", n), DeploymentID: id("f1", n), DesiredStatus: "run", ClientStatus: "pending"}},
			Deployment: &model.Deployment{ID: id("f1", n), Namespace: "default", JobID: job, Status: "running", TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1}}},
		}}
	case 9:
		return &fsm.DeleteDeployments{IDs: []string{id("f1", n)}}
	case 10:
		return &fsm.RegisterNode{Node: &model.Node{ID: id("d1", n), SecretID: "s", Name: fmt.Sprint("n", rng.IntN(100)), NodePool: "default", Status: "ready"}}
	case 11:
		return &fsm.DeregisterNodes{IDs: []string{id("d1", n)}}
	}
	if rng.IntN(2) == 0 {
		return &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: fmt.Sprint("ns", n), Description: fmt.Sprint(rng.IntN(100))}}}
	}
	return &fsm.DeleteNamespaces{Names: []string{fmt.Sprint("ns", n)}}
}

// indexInBody is the index where an answer repeats it: it may rise, by the removal of
// something else of the same kind, where nothing that is shown has changed.
var indexInBody = regexp.MustCompile(`"Index":\d+,`)

type seen struct {
	index uint64
	body  string
}

func look(ctx context.Context, url string) (seen, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return seen{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return seen{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return seen{}, err
	}
	index, err := strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
	return seen{index, resp.Status + indexInBody.ReplaceAllString(string(body), "")}, err
}

func TestEveryChangeOfAnAnswerRaisesItsIndexAndWakesWhoWaits(t *testing.T) {
	c := testkit.Start(t)
	c.Must("PUT", "/v1/operator/scheduler/configuration", `{"PauseEvalBroker":true}`, nil) // nothing changes but what the test writes
	rng := rand.New(rand.NewPCG(1, 2))
	at := func(route, query string) string {
		if query == "" {
			return c.URL + route
		}
		sep := "?"
		if strings.Contains(route, "?") {
			sep = "&"
		}
		return c.URL + route + sep + query
	}
	last := map[string]seen{}
	for _, route := range watched {
		s, err := look(t.Context(), at(route, ""))
		if err != nil {
			t.Fatal(route, err)
		}
		if s.index == 0 {
			t.Errorf("%s: the index is 0", route)
		}
		last[route] = s
	}
	for step := range 150 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		woken := map[string]chan struct{}{}
		for _, route := range watched {
			ch := make(chan struct{})
			woken[route] = ch
			behind := last[route].index
			go func() {
				if _, err := look(ctx, at(route, fmt.Sprintf("index=%d&wait=300s", behind))); err == nil {
					close(ch)
				}
			}()
		}
		cmd := randomWrite(rng)
		data, err := fsm.Encode(cmd)
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = c.Server.Raft().Propose(ctx, data) // what is refused changes nothing
		now := map[string]seen{}
		for _, route := range watched {
			s, err := look(ctx, at(route, ""))
			if err != nil {
				t.Fatal(route, err)
			}
			was := last[route]
			switch {
			case s.index < was.index:
				t.Errorf("step %d, %T: the index of %s went from %d back to %d", step, cmd, route, was.index, s.index)
			case s.body != was.body && s.index == was.index:
				t.Errorf("step %d, %T: %s has changed and its index is still %d", step, cmd, route, s.index)
			case s.body != was.body:
				select {
				case <-woken[route]:
				case <-ctx.Done():
					t.Errorf("step %d, %T: who waits for %s behind %d was not woken; it is at %d now", step, cmd, route, was.index, s.index)
				}
			}
			now[route] = s
		}
		cancel()
		last = now
		if t.Failed() {
			return
		}
	}
}
