// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// rawExec is what a driver publishes that takes a command and, from its second
// version on, a directory.
func rawExec(t testing.TB, version int) *driverschema.Body {
	t.Helper()
	b := &driverschema.Body{Driver: "raw_exec", Capabilities: driverschema.Capabilities{Ignores: []string{"user"}, SendSignals: true, Exec: true}}
	b.Task.Attributes = []schema.Attribute{{Name: "command", Type: schema.String, Required: true, Description: "program to run"}}
	if version > 1 {
		b.Task.Attributes = append(b.Task.Attributes, schema.Attribute{Name: "work_dir", Type: schema.String})
	}
	return b
}

// node adds a node with the driver that publishes the body, nil for none.
func (s *server) node(id, datacenter string, b *driverschema.Body) {
	s.t.Helper()
	s.propose(addNode(s.t, id, datacenter, b))
}

func addNode(t testing.TB, id, datacenter string, b *driverschema.Body) fsm.Command {
	t.Helper()
	n := &model.Node{ID: id, Datacenter: datacenter, Status: model.NodeStatusReady, Drivers: map[string]*model.DriverInfo{}}
	cmds := []fsm.Command{&fsm.RegisterNode{Node: n}}
	if b != nil {
		hash, data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		n.Drivers[b.Driver] = &model.DriverInfo{Detected: true, SchemaHash: hash, PluginVersion: "1.0"}
		cmds = append(cmds, &fsm.AddDriverSchemas{Schemas: []*model.DriverSchema{{Hash: hash, Driver: b.Driver, Body: data}}})
	}
	return &fsm.Batch{Commands: cmds}
}

func (s *server) propose(cmd fsm.Command) {
	s.t.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := s.Raft.Propose(s.ctx, data); err != nil {
		s.t.Fatal(err)
	}
}

func withConfig(config, more string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"ID":"a","Name":"a","Type":"service","Datacenters":["dc1"],
		"TaskGroups":[{"Name":"g","Count":1,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":%s%s}]}]}`, config, more))
}

const misspelt = `task group "g" -> task "t" -> config.comand: unknown attribute; did you mean "command"?`

func TestAConfigThatNoDriverTakesIsRefusedEverywhere(t *testing.T) {
	s := newServer(t)
	s.node("n1", "dc1", rawExec(t, 1))
	bad := withConfig(`{"comand":"x"}`, "")
	v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: bad})
	if err != nil || !slices.Contains(v.ValidationErrors, misspelt) || !slices.Contains(v.ValidationErrors, `task group "g" -> task "t" -> config.command: required (program to run)`) || !strings.HasPrefix(v.Error, "2 errors occurred:\n\t* task group") {
		t.Errorf("validated to %+v, %v", v, err)
	}
	if _, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: bad}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), misspelt) {
		t.Errorf("planned: %v", err)
	}
	if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: bad}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), misspelt) {
		t.Errorf("registered: %v", err)
	}
	both := json.RawMessage(strings.Replace(string(bad), `"Type":"service"`, `"Type":"service","Priority":999`, 1))
	if v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: both}); err != nil || len(v.ValidationErrors) != 3 {
		t.Errorf("with another mistake: %+v, %v", v, err)
	}
	stop := json.RawMessage(strings.Replace(string(bad), `"Type":"service"`, `"Type":"service","Stop":true`, 1))
	if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: stop}); err != nil {
		t.Errorf("a job that is to stop is held up: %v", err)
	}
}

func TestVersionsOfADriverLiveSideBySide(t *testing.T) {
	s := newServer(t)
	s.node("n1", "dc1", rawExec(t, 1))
	newer := withConfig(`{"command":"x","work_dir":"/"}`, "")
	ask := func() []string {
		t.Helper()
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: newer})
		if err != nil {
			t.Fatal(err)
		}
		return v.ValidationErrors
	}
	if len(ask()) != 1 {
		t.Fatal("an attribute of the next version is accepted")
	}
	s.node("n2", "dc2", rawExec(t, 2))
	if len(ask()) != 1 {
		t.Fatal("a version in a datacenter that the job does not reach is counted")
	}
	s.node("n3", "dc1", rawExec(t, 2))
	if errs := ask(); len(errs) != 0 {
		t.Fatalf("the newer version is not counted: %q", errs)
	}
	s.propose(&fsm.DeregisterNodes{IDs: []string{"n1", "n2", "n3"}})
	s.node("n4", "dc1", nil)
	v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: withConfig(`{"comand":"x"}`, "")})
	if err != nil || !slices.Contains(v.ValidationErrors, misspelt) || !strings.Contains(v.Warnings, `no node of the cluster offers driver "raw_exec"`) {
		t.Fatalf("a driver is forgotten with its last node: %+v, %v", v, err)
	}
	s.propose(&fsm.DeleteDriverSchemas{Hashes: []string{hashOf(t, rawExec(t, 1)), hashOf(t, rawExec(t, 2))}})
	if v, err = s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: withConfig(`{"comand":"x"}`, "")}); err != nil || len(v.ValidationErrors) != 0 {
		t.Fatalf("a driver of which nothing is known any more is checked: %+v, %v", v, err)
	}
}

func hashOf(t *testing.T, b *driverschema.Body) string {
	t.Helper()
	hash, _, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestWhatTheDriverIgnoresIsAWarningEverywhere(t *testing.T) {
	s := newServer(t)
	good := withConfig(`{"command":"x"}`, `,"User":"www"`)
	if r := s.register(good); r.Warnings != "" {
		t.Fatalf("without any node: %q", r.Warnings)
	}
	s.node("n1", "dc1", rawExec(t, 1))
	const want = "1 warning:\n\n* task group \"g\" -> task \"t\" -> user: driver \"raw_exec\" does not act on it"
	if r := s.register(good); r.Warnings != want {
		t.Errorf("registered: %q", r.Warnings)
	}
	if p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: good}); err != nil || p.Warnings != want {
		t.Errorf("planned: %+v, %v", p, err)
	}
	if v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: good}); err != nil || v.Warnings != want || v.Error != "" {
		t.Errorf("validated: %+v, %v", v, err)
	}
}

func TestAMemoryMaxThatDoesNotCountIsAWarning(t *testing.T) {
	s := newServer(t)
	job := withConfig(`{"command":"x"}`, `,"Resources":{"CPU":100,"MemoryMB":64,"MemoryMaxMB":128}`)
	warns := func() bool {
		t.Helper()
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: job})
		if err != nil || v.Error != "" {
			t.Fatalf("%+v, %v", v, err)
		}
		return strings.Contains(v.Warnings, `memory_max of task "t" of group "g" is ignored`)
	}
	if !warns() {
		t.Error("nobody is told that memory_max is ignored")
	}
	s.propose(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{SchedulerAlgorithm: "binpack", MemoryOversubscriptionEnabled: true}})
	if warns() {
		t.Error("a warning though memory_max counts")
	}
	off := false
	pool := &model.NodePool{Name: "tight", SchedulerConfiguration: &model.NodePoolSchedulerConfiguration{MemoryOversubscriptionEnabled: &off}}
	s.propose(&fsm.UpsertNodePools{Pools: []*model.NodePool{pool}})
	job = json.RawMessage(strings.Replace(string(job), `"Type":"service"`, `"Type":"service","NodePool":"tight"`, 1))
	if !warns() {
		t.Error("the pool's own word does not count")
	}
}

func TestResourcesThatNoNodeCanChangeInPlaceAreAWarning(t *testing.T) {
	s := newServer(t)
	job := json.RawMessage(strings.Replace(string(withConfig(`{"command":"x"}`, "")), `"Count":1`, `"Count":1,"Update":{"Resources":"in_place"}`, 1))
	warns := func() bool {
		t.Helper()
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: job})
		if err != nil || v.Error != "" {
			t.Fatalf("%+v, %v", v, err)
		}
		return strings.Contains(v.Warnings, `update.resources of group "g" has no effect: driver "raw_exec" of task "t"`)
	}
	if warns() {
		t.Error("a warning though no node is known that has the driver")
	}
	able := &model.Node{
		ID: "n1", Datacenter: "dc1", Status: model.NodeStatusReady, Drivers: map[string]*model.DriverInfo{"raw_exec": {Detected: true}},
		Attributes: map[string]string{model.UpdatesResourcesAttribute("raw_exec"): "true"},
	}
	unable := *able
	unable.Attributes = nil
	s.propose(&fsm.RegisterNode{Node: &unable})
	if !warns() {
		t.Error("nobody is told that the resources cannot change in place")
	}
	s.propose(&fsm.RegisterNode{Node: able})
	if warns() {
		t.Error("a warning though a node can do it")
	}
}

func TestAProviderThatNoNodeReachesIsAWarning(t *testing.T) {
	s := newServer(t)
	job := json.RawMessage(strings.Replace(string(withConfig(`{"command":"x"}`, "")), `"Count":1`, `"Count":1,"Services":[{"Name":"web","Provider":"cosnul"}]`, 1))
	warns := func() bool {
		t.Helper()
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: job})
		if err != nil || v.Error != "" {
			t.Fatalf("%+v, %v", v, err)
		}
		return strings.Contains(v.Warnings, `no node of the cluster reaches a registry "cosnul"`)
	}
	if warns() {
		t.Error("a warning though no node is known")
	}
	node := &model.Node{ID: "n1", Datacenter: "dc1", Status: model.NodeStatusReady, Attributes: map[string]string{"consul.version": "1.20.0"}}
	s.propose(&fsm.RegisterNode{Node: node})
	if !warns() {
		t.Error("nobody is told that the provider is unknown")
	}
	able := *node
	able.ID, able.Attributes = "n2", map[string]string{"cosnul.east.version": "1"}
	s.propose(&fsm.RegisterNode{Node: &able})
	if warns() {
		t.Error("a warning though a node reaches a cluster of the registry")
	}
}

func TestAServiceOfConsulIsAWarningWhereNoNodeReachesConsul(t *testing.T) {
	s := newServer(t)
	const warning = `no node of the cluster reaches a registry "consul", the provider of service "web" of group "g", so the group is not placed until one does: give nodes a consul block (docs/consul.md), or write provider = "nomad"`
	validated := func(provider string) string {
		t.Helper()
		job := strings.Replace(string(withConfig(`{"command":"x"}`, "")), `"Count":1`, `"Count":1,"Services":[{"Name":"web"`+provider+`}]`, 1)
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: json.RawMessage(job)})
		if err != nil || v.Error != "" {
			t.Fatalf("%+v, %v", v, err)
		}
		return v.Warnings
	}
	node := &model.Node{ID: "n1", Datacenter: "dc1", Status: model.NodeStatusReady}
	s.propose(&fsm.RegisterNode{Node: node})
	for _, provider := range []string{``, `,"Provider":"consul"`} { // it is the default
		if got := validated(provider); !strings.Contains(got, warning) {
			t.Errorf("%q: %s", provider, got)
		}
	}
	if got := validated(`,"Provider":"nomad"`); strings.Contains(got, "reaches a registry") {
		t.Errorf("of provider nomad: %s", got)
	}
	able := *node
	able.Attributes = map[string]string{"consul.version": "1.20.0"}
	s.propose(&fsm.RegisterNode{Node: &able})
	if got := validated(""); strings.Contains(got, "reaches a registry") {
		t.Errorf("though a node reaches it: %s", got)
	}
}

func TestAJobWithManyProblemsIsAnsweredInAFewWords(t *testing.T) {
	s := newServer(t)
	s.node("n1", "dc1", rawExec(t, 1))
	config := map[string]any{"command": "x"}
	for i := range 5000 {
		config[fmt.Sprintf("wrong%d", i)] = i
	}
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: withConfig(string(body), "")})
	if err != nil || len(v.ValidationErrors) != 101 || !strings.HasSuffix(v.ValidationErrors[100], "config: and 4900 more problems") {
		t.Fatalf("%d problems, the last %q, %v", len(v.ValidationErrors), v.ValidationErrors[len(v.ValidationErrors)-1], err)
	}
}

// BenchmarkRegister is a registration of a job of one task, with and without
// drivers that publish schemas.
func BenchmarkRegister(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("schema=%v", known), func(b *testing.B) {
			r := &raft{fsm: fsm.New(state.New(), hclog.NewNullLogger())}
			s := endpoint.New(endpoint.Config{Store: r.fsm.Store(), Raft: r, Region: "global", Now: func() time.Time { return now }})
			if known {
				data, err := fsm.Encode(addNode(b, "n1", "dc1", rawExec(b, 2)))
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := r.Propose(b.Context(), data); err != nil {
					b.Fatal(err)
				}
			}
			for i := range b.N {
				job := json.RawMessage(strings.Replace(string(withConfig(`{"command":"x"}`, "")), `"ID":"a"`, fmt.Sprintf(`"ID":"a%d"`, i), 1))
				if _, err := s.RegisterJob(b.Context(), &api.JobRegisterRequest{Job: job}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWhatNobodyActsOnIsAWarningEverywhere(t *testing.T) {
	s := newServer(t)
	job := withConfig(`{"command":"x"}`, `,"Vault":{"Policies":["a"]}`)
	const want = "1 warning:\n\n* not acted on yet: vault (no node has Vault yet, so nothing of the group is placed; take the block out, and use variables or identities) of g/t"
	if v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: job}); err != nil || v.Warnings != want || v.Error != "" {
		t.Errorf("validated: %+v, %v", v, err)
	}
	if p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: job}); err != nil || p.Warnings != want {
		t.Errorf("planned: %+v, %v", p, err)
	}
	if r := s.register(job); r.Warnings != want {
		t.Errorf("registered: %q", r.Warnings)
	}
}
