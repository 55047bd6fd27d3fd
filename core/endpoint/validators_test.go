// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// judge is a node with a driver that has rules.
type judge struct {
	says  []rpc.ConfigFinding
	err   error
	hangs bool

	mu    sync.Mutex
	heard []rpc.ValidateRequest
}

func (j *judge) Call(ctx context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	var q rpc.ValidateRequest
	if err := json.Unmarshal(call.Body, &q); err != nil || call.Method != rpc.MethodValidate {
		return errdefs.Internalf("%s: %w", call.Method, err)
	}
	j.mu.Lock()
	j.heard = append(j.heard, q)
	j.mu.Unlock()
	if j.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if j.err != nil {
		return j.err
	}
	answers := make([]rpc.ValidateAnswer, len(q.Configs))
	for i := range answers {
		answers[i].Findings = j.says
	}
	body, err := json.Marshal(answers)
	if err != nil {
		return err
	}
	return send(body)
}

func (j *judge) calls() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.heard)
}

// judged is a driver with rules, in a version of its own for each number.
func judged(t *testing.T, version int) *driverschema.Body {
	b := rawExec(t, version)
	b.Capabilities.Validates = true
	return b
}

// judges gives a server nodes whose names are their computed classes, too.
func judges(t *testing.T, body *driverschema.Body, nodes map[string]*judge) *server {
	t.Helper()
	s := newServer(t)
	s.Nodes = func(id string) (rpc.Node, error) {
		if j := nodes[id]; j != nil {
			return j, nil
		}
		return nil, errdefs.Unavailablef("No path to node %q", id)
	}
	for id := range nodes {
		s.propose(addJudge(t, id, body))
	}
	return s
}

func addJudge(t *testing.T, id string, body *driverschema.Body) fsm.Command {
	t.Helper()
	batch := addNode(t, id, "dc1", body).(*fsm.Batch)
	n := batch.Commands[0].(*fsm.RegisterNode).Node
	n.Drivers[body.Driver].Healthy = true
	n.Name, n.ComputedClass, n.SchedulingEligibility, n.NodePool = id, "class of "+id, model.NodeSchedulingEligible, model.NodePoolDefault
	return batch
}

var (
	wrong = rpc.ConfigFinding{Path: "config.command", Text: "no such thing; write another", Error: true}
	odd   = rpc.ConfigFinding{Path: "config.command", Text: "is odd"}
)

const (
	wrongText = `task group "g" -> task "t" -> config.command: no such thing; write another`
	oddText   = `task group "g" -> task "t" -> config.command: is odd`
	unasked   = `task group "g" -> task "t" -> driver: driver "raw_exec" could not be asked what is wrong with the config (`
)

func (s *server) validated(job json.RawMessage) *api.JobValidateResponse {
	s.t.Helper()
	v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: job})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func TestWhatADriversRulesSayOfAConfigCountsAsItsSchemaDoes(t *testing.T) {
	s := judges(t, judged(t, 1), map[string]*judge{"n1": {says: []rpc.ConfigFinding{wrong, odd}}})
	job := withConfig(`{"command":"x"}`, "")
	v := s.validated(job)
	if len(v.ValidationErrors) != 1 || v.ValidationErrors[0] != wrongText || !strings.Contains(v.Error, wrongText) || v.Warnings != "1 warning:\n\n* "+oddText {
		t.Errorf("validated: %+v", v)
	}
	want := []api.JobFinding{
		{TaskGroup: "g", Task: "t", Driver: "raw_exec", Path: "config.command", Severity: api.FindingError, Message: wrongText},
		{TaskGroup: "g", Task: "t", Driver: "raw_exec", Path: "config.command", Severity: api.FindingWarning, Message: oddText},
	}
	if len(v.Findings) != 2 || *v.Findings[0] != want[0] || *v.Findings[1] != want[1] {
		t.Errorf("findings: %+v", v.Findings)
	}
	if _, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: job}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), wrongText) {
		t.Errorf("planned: %v", err)
	}
	if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: job}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), wrongText) {
		t.Errorf("registered: %v", err)
	}
	stop := json.RawMessage(strings.Replace(string(job), `"Type":"service"`, `"Type":"service","Stop":true`, 1))
	if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: stop}); err != nil {
		t.Errorf("a job that is to stop is held up: %v", err)
	}
}

func TestAWarningOfADriversRulesIsOneEverywhere(t *testing.T) {
	s := judges(t, judged(t, 1), map[string]*judge{"n1": {says: []rpc.ConfigFinding{odd}}})
	job := withConfig(`{"command":"x"}`, "")
	const want = "1 warning:\n\n* " + oddText
	if r := s.register(job); r.Warnings != want || len(r.Findings) != 1 {
		t.Errorf("registered: %+v", r)
	}
	if p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: job}); err != nil || p.Warnings != want || len(p.Findings) != 1 {
		t.Errorf("planned: %+v, %v", p, err)
	}
}

func TestOneNodeIsAskedOnceForAllTasksOfADriver(t *testing.T) {
	nodes := map[string]*judge{"n1": {}, "n2": {}, "n3": {}}
	s := judges(t, judged(t, 1), nodes)
	var groups []string
	for i := range 5 {
		groups = append(groups, fmt.Sprintf(`{"Name":"g%d","Tasks":[{"Name":"a","Driver":"raw_exec","Config":{"command":"a%d"}},{"Name":"b","Driver":"raw_exec","Config":{"command":"${meta.b}"}}]}`, i, i))
	}
	job := json.RawMessage(fmt.Sprintf(`{"ID":"a","Name":"a","Type":"service","Datacenters":["dc1"],"TaskGroups":[%s]}`, strings.Join(groups, ",")))
	if v := s.validated(job); v.Error != "" || v.Warnings != "" {
		t.Fatalf("%+v", v)
	}
	asked, configs := 0, 0
	for _, n := range nodes {
		asked += n.calls()
		for _, q := range n.heard {
			configs += len(q.Configs)
		}
	}
	if asked != 1 || configs != 10 {
		t.Errorf("%d calls with %d configs, want 1 with 10", asked, configs)
	}
}

func TestATaskIsRefusedOnlyIfNodesOfAllKindsRefuseIt(t *testing.T) {
	refuses := func() *judge { return &judge{says: []rpc.ConfigFinding{wrong}} }
	nodes := map[string]*judge{"n1": refuses(), "n2": {says: []rpc.ConfigFinding{odd}}, "n3": refuses()}
	s := judges(t, judged(t, 1), nodes)
	job := withConfig(`{"command":"x"}`, "")
	if v := s.validated(job); v.Error != "" || !strings.Contains(v.Warnings, oddText) {
		t.Errorf("n2 would start it: %+v", v)
	}
	s.propose(&fsm.DeregisterNodes{IDs: []string{"n2"}})
	if v := s.validated(job); len(v.ValidationErrors) != 1 {
		t.Errorf("no node would start it: %+v", v)
	}
	// A version without rules may run it as well.
	s.propose(addJudge(t, "n4", rawExec(t, 2)))
	if v := s.validated(job); v.Error != "" || !strings.Contains(v.Warnings, wrongText) {
		t.Errorf("a version without rules would start it: %+v", v)
	}
}

func TestOnlyNodesThatTheJobMayUseAreAsked(t *testing.T) {
	says := &judge{says: []rpc.ConfigFinding{wrong}}
	s := judges(t, judged(t, 1), map[string]*judge{"n1": says})
	for what, job := range map[string]json.RawMessage{
		"another datacenter": json.RawMessage(strings.Replace(string(withConfig(`{"command":"x"}`, "")), "dc1", "dc2", 1)),
		"a constraint":       json.RawMessage(strings.Replace(string(withConfig(`{"command":"x"}`, "")), `"Type":"service"`, `"Type":"service","Constraints":[{"LTarget":"${meta.rack}","RTarget":"7","Operand":"="}]`, 1)),
	} {
		if v := s.validated(job); v.Error != "" || !strings.Contains(v.Warnings, unasked+"no ready node that the task may use") || says.calls() > 0 {
			t.Errorf("%s: %+v, %d calls", what, v, says.calls())
		}
	}
	s.propose(&fsm.UpdateNodeEligibility{NodeID: "n1", Eligibility: model.NodeSchedulingIneligible})
	if v := s.validated(withConfig(`{"command":"x"}`, "")); v.Error != "" || says.calls() > 0 {
		t.Errorf("a node that is not eligible is asked: %+v", v)
	}
}

func TestADriverThatHangsOrIsAwayCostsAWarningAndNotMoreThanTwoSeconds(t *testing.T) {
	for what, c := range map[string]struct {
		node *judge
		want string
		took time.Duration
	}{
		"hangs":           {&judge{hangs: true}, `node "n1" has not answered within 2s`, 2 * time.Second},
		"away":            {&judge{err: errdefs.Unavailablef("plugin x is\nstarting")}, `node "n1": plugin x is starting`, 0},
		"an older agent":  {&judge{err: errdefs.Unimplementedf("no such request")}, "no such request", 0},
		"not for a node":  {nil, "no ready node that the task may use and on which the driver works now has a session with this server", 0},
		"another message": {&judge{err: nil, says: []rpc.ConfigFinding{{Path: "\x1b[2Jx", Text: "a\nb\x1b"}}}, "config: a b ", 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := judges(t, judged(t, 1), map[string]*judge{"n1": c.node})
				begun := time.Now()
				r := s.register(withConfig(`{"command":"x"}`, ""))
				if !strings.Contains(r.Warnings, c.want) || strings.Contains(r.Warnings, "\x1b") {
					t.Errorf("warnings %q, want %q", r.Warnings, c.want)
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

func TestAHungNodeAfterOneThatRefusesDoesNotLetTheTaskPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := judges(t, judged(t, 1), map[string]*judge{"n1": {says: []rpc.ConfigFinding{wrong}}, "n2": {hangs: true}})
		if v := s.validated(withConfig(`{"command":"x"}`, "")); len(v.ValidationErrors) != 1 || v.Warnings != "" {
			t.Errorf("%+v", v)
		}
	})
}

func TestAnAnswerThatDoesNotFitItsQuestionIsAWarning(t *testing.T) {
	s := judges(t, judged(t, 1), map[string]*judge{"n1": nil})
	s.Nodes = func(string) (rpc.Node, error) { return short{}, nil }
	if v := s.validated(withConfig(`{"command":"x"}`, "")); v.Error != "" || !strings.Contains(v.Warnings, "0 answers to 1 questions") {
		t.Errorf("%+v", v)
	}
}

type short struct{}

func (short) Call(_ context.Context, _ rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	return send([]byte(`[]`))
}
