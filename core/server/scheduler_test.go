// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/server"
)

func TestANewClusterBeginsWithTheSchedulerConfigurationOfItsServer(t *testing.T) {
	dir := t.TempDir()
	// with runs a server with a default and returns the algorithm in force.
	with := func(algorithm string, change func(context.Context, *server.Server)) string {
		t.Helper()
		cfg := server.Config{DataDir: dir, Dev: true, Logger: hclog.NewNullLogger()}
		if algorithm != "" {
			cfg.Scheduler = &model.SchedulerConfiguration{SchedulerAlgorithm: algorithm}
		}
		s, err := server.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		s.Start()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.WaitLeader(ctx); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(ctx, s)
		}
		return s.Endpoint().Store.View().SchedulerConfig().SchedulerAlgorithm
	}
	if got := with("", nil); got != model.SchedulerAlgorithmBinpack {
		t.Errorf("without a default: %s", got)
	}
	if got := with("spread", nil); got != "spread" {
		t.Errorf("with a default: %s", got)
	}
	if got := with("binpack", nil); got != "spread" {
		t.Errorf("another default once there is a configuration: %s", got)
	}
	set := func(ctx context.Context, s *server.Server) {
		if _, _, err := s.Endpoint().SetSchedulerConfig(ctx, &model.SchedulerConfiguration{SchedulerAlgorithm: "binpack"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := with("spread", set); got != "binpack" {
		t.Errorf("set by an operator: %s", got)
	}
	if got := with("spread", nil); got != "binpack" {
		t.Errorf("after a restart the default is in force again: %s", got)
	}
}
