// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/control/periodic"
	"github.com/drover-project/drover/core/control/plugins"
	"github.com/drover-project/drover/core/worker"
)

// lead runs the loops of the leader. It returns when ctx has ended and all of them have
// stopped.
func (s *Server) lead(ctx context.Context) {
	logger := s.cfg.Logger
	if err := s.ring.Check(s.store.View().RootKeys(), s.store.View().ServerKeyByID(s.ID())); err != nil {
		s.fail(err)
		return
	}
	var term sync.WaitGroup
	if err := s.term.Once(ctx); err != nil && ctx.Err() == nil {
		logger.Warn("this server leads, and could not write so to the log: until it can, no node stops what this server does not know", "error", err)
		term.Go(func() { s.term.Retry(ctx) })
	}
	defer s.dispatch.Begin("")
	raiser := &capability.Raiser{Store: s.store, Log: s.raft, Servers: s.capabilities, Release: s.cfg.Release, Logger: logger.Named("capability")}
	if err := raiser.Once(ctx); err != nil && ctx.Err() == nil {
		logger.Debug("the capability level is not raised yet", "error", err)
	}
	feeder := &worker.Feeder{Store: s.store, Broker: s.broker, Blocked: s.blocked, Logger: logger.Named("feeder")}
	for _, part := range []func(context.Context){
		raiser.Run, s.sharer().Run, s.broker.Run, feeder.Run, s.applier.Run, s.dispatch.Lead, s.pilot.Run,
		s.control, s.schedule, s.worker().RunFailed, s.worker().RunSuperseded, s.renewer().Run, s.claims.Run, s.firstKey, s.keepBackups,
	} {
		term.Go(func() { part(ctx) })
	}
	if s.cfg.joins() {
		term.Go(func() { s.pilot.YieldIfFull(ctx) })
	}
	if err := s.endpoint.BeginWithScheduler(ctx, s.cfg.Scheduler); err != nil && ctx.Err() == nil {
		logger.Error("the cluster does not begin with default_scheduler_config; set it with drover operator scheduler set-config", "error", err)
	}
	s.leading.Store(true)
	defer s.leading.Store(false)
	s.firstOnce.Do(func() { close(s.firstTerm) })
	term.Wait()
}

// control runs the controllers.
func (s *Server) control(ctx context.Context) {
	s.controls.Run(ctx, deploy.Controller{}, drain.Controller{}, periodic.Controller{}, plugins.Controller{}, keys.Controller{}, gc.Controller{Thresholds: s.cfg.GC})
}

// schedule runs the workers.
func (s *Server) schedule(ctx context.Context) {
	s.workers.Run(ctx, uuid.NewString, func(ctx, taking context.Context) { s.worker().Run(ctx, taking) })
}

func (s *Server) worker() *worker.Worker {
	return worker.New(worker.Config{
		Broker: s.broker, Blocked: s.blocked, Applier: s.applier, Log: s.log,
		View: func() worker.View { return s.store.View() }, WaitFor: worker.WaitForIndex(s.store),
		IDs: ids{}, Now: time.Now, Logger: s.cfg.Logger.Named("worker"),
	})
}

// ids generates UUIDs.
type ids struct{}

// NewID returns a UUID.
func (ids) NewID() string { return uuid.NewString() }

func (s *Server) sharer() *keyshare.Sharer {
	members := func() ([]string, error) { return s.raft.IDs(consensus.Any) }
	return &keyshare.Sharer{Store: s.store, Log: s.log, Ring: s.ring, Members: members, CanLead: s.pilot.CanLead, Transfer: s.raft.TransferLeadership, Logger: s.cfg.Logger.Named("keyring")}
}

func (s *Server) renewer() keys.Renewer {
	rotate := func(ctx context.Context, publish time.Time) (string, error) {
		req := &api.RotateKeyRequest{}
		if !publish.IsZero() {
			req.PublishTime = publish.UnixNano()
		}
		key, err := s.endpoint.RotateKey(ctx, req)
		if err != nil {
			return "", err
		}
		return key.KeyID, nil
	}
	remove := func(ctx context.Context, id string) error {
		_, err := s.endpoint.RemoveKey(ctx, id, false)
		return err
	}
	return keys.Renewer{Limits: s.cfg.RootKeys, Ring: func() keys.Ring { return s.store.View() }, Rotate: rotate, Remove: remove, Logger: s.cfg.Logger.Named("keyring")}
}

// firstKey makes the first key of a new keyring.
func (s *Server) firstKey(ctx context.Context) {
	if err := s.endpoint.EnsureKey(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("the first key of the keyring could not be made; the first variable makes it", "error", err)
	}
}

// Leads reports whether this server leads and has begun its term: all loops of the leader
// run or are about to.
func (s *Server) Leads() bool { return s.leading.Load() }

// WaitLeader returns once this server leads, it knows another leader, ctx ends, or the
// server fails.
func (s *Server) WaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := make(chan error, 1)
	go func() {
		_, err := s.raft.WaitLeader(ctx, func(l consensus.Server) bool { return l.ID != s.who.ID })
		other <- err
	}()
	select {
	case <-s.firstTerm:
		return nil
	case err := <-s.failed:
		s.fail(err) // the error stays available
		return err
	case err := <-other:
		if err != nil {
			return fmt.Errorf("no server became the leader: %w", err)
		}
		return nil
	}
}
