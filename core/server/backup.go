// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"io"
	"time"

	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Schedule says which snapshots the leader takes at intervals: see backup.Config.
type Schedule struct {
	Interval time.Duration
	Retain   int
	Prefix   string
	Store    backup.Store
}

// newBackups returns the agent that takes the scheduled snapshots while this server leads.
func (s *Server) newBackups() *backup.Agent {
	plan := s.cfg.Schedule
	if plan == nil {
		return nil
	}
	return backup.New(backup.Config{
		Interval: plan.Interval, Retain: plan.Retain, Prefix: plan.Prefix, Store: plan.Store, Now: time.Now, Logger: s.cfg.Logger.Named("snapshots"),
		Take: func(ctx context.Context) (*backup.Snapshot, error) {
			snap, err := s.snapshots.Save(ctx)
			if err != nil {
				return nil, err
			}
			return &backup.Snapshot{ReadCloser: snap, Digest: snap.Digest}, nil
		},
		Verify: func(r io.Reader) (uint64, error) {
			info, err := consensus.InspectArchive(r)
			return info.Index, err
		},
	})
}

// keepBackups takes the scheduled snapshots, if there is a schedule.
func (s *Server) keepBackups(ctx context.Context) {
	if s.backups != nil {
		s.backups.Run(ctx)
	}
}

// SnapshotSchedule returns the results of this server's scheduled snapshots.
func (s *Server) SnapshotSchedule() (*backup.Status, error) {
	if s.backups == nil {
		return nil, errdefs.NotFoundf("the leader's configuration has no snapshot block; to see what `drover operator snapshot agent` has stored, name its configuration file")
	}
	out := s.backups.Status()
	return &out, nil
}
