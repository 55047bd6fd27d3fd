// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAFullQueueRefusesNewWorkBeforeAnythingIsWrittenAndNeverTheEndOfWork(t *testing.T) {
	s := newServer(t)
	s.register(draft("web", "service", ""))
	s.register(draft("hook", "batch", `"ParameterizedJob":{},`))
	s.register(draft("cron", "batch", `"Periodic":{"Spec":"0 0 1 1 *","Enabled":true},`))
	admitted := 0
	s.Admit = func(ns, pool string) (func(), error) {
		if ns != "default" || pool != "default" {
			t.Errorf("asked for %s, %s", ns, pool)
		}
		if admitted == 0 {
			return nil, errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("full"), time.Second)
		}
		admitted--
		return func() { admitted++ }, nil
	}
	five, zero := int64(5), int64(0)
	writes := map[string]func() error{
		"register": func() error {
			_, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("web", "service", `"Priority":60,`)})
			return err
		},
		"dispatch": func() error {
			_, err := s.DispatchJob(s.ctx, &api.JobDispatchRequest{Namespace: "default", JobID: "hook"})
			return err
		},
		"force": func() error { _, err := s.ForcePeriodic(s.ctx, "default", "cron"); return err },
		"evaluate": func() error {
			_, err := s.EvaluateJob(s.ctx, &api.JobEvaluateRequest{Namespace: "default", JobID: "web"})
			return err
		},
		"scale up": func() error {
			_, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "web", Target: map[string]string{"Group": "g"}, Count: &five})
			return err
		},
	}
	for name, write := range writes {
		before := s.state().Index()
		if err := write(); !errdefs.IsResourceExhausted(err) || errdefs.RetryAfter(err) != time.Second {
			t.Errorf("%s: %v", name, err)
		}
		if s.state().Index() != before {
			t.Errorf("%s is refused and has written something", name)
		}
	}
	if _, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "web", Target: map[string]string{"Group": "g"}, Count: &zero}); err != nil {
		t.Errorf("fewer allocs: %v", err)
	}
	if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: "web"}); err != nil {
		t.Errorf("a stop: %v", err)
	}
	admitted = 1
	for name, write := range writes {
		if err := write(); err != nil {
			t.Errorf("%s with room in the queue: %v", name, err)
		}
		if admitted != 1 {
			t.Fatalf("%s did not give its place back", name)
		}
	}
}

func TestRulesOfQueuesThatCannotBeAreRefused(t *testing.T) {
	s := newServer(t)
	for name, q := range map[string]*model.QueueConfiguration{"weight": {Weight: 1001}, "negative": {Weight: -1}, "depth": {MaxDepth: -1}, "huge": {MaxDepth: 1 << 40}} {
		if _, err := s.UpsertNamespace(s.ctx, &model.Namespace{Name: "n", SchedulerConfiguration: &model.NamespaceSchedulerConfiguration{Queue: q}}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("namespace, %s: %v", name, err)
		}
		if _, err := s.UpsertNodePool(s.ctx, &model.NodePool{Name: "p", SchedulerConfiguration: &model.NodePoolSchedulerConfiguration{Queue: q}}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("node pool, %s: %v", name, err)
		}
	}
	_, algorithm := s.UpsertNamespace(s.ctx, &model.Namespace{Name: "n", SchedulerConfiguration: &model.NamespaceSchedulerConfiguration{SchedulerAlgorithm: "best"}})
	_, _, order := s.SetSchedulerConfig(s.ctx, &model.SchedulerConfiguration{QueueOrder: "random"}, nil)
	_, _, depth := s.SetSchedulerConfig(s.ctx, &model.SchedulerConfiguration{QueueMaxDepth: -5}, nil)
	for _, err := range []error{algorithm, order, depth} {
		if err == nil || errors.Is(err, errdefs.Internal) {
			t.Errorf("%v", err)
		}
	}
}
