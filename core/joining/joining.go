// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package joining connects a server to the gossip of its cluster: it joins the servers of
// its configuration, announces what they must know of it, reports what they announce, and
// leaves. core/membership finds the servers. core/server composes it.
package joining

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/founding"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/srvname"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Gossip configures how a server finds the others.
type Gossip struct {
	// Config configures core/membership; Start sets the fields that say who the server is.
	membership.Config
	// RetryJoin are addresses of other servers, which are tried until one answers:
	// RetryMax times (0: without end), RetryInterval apart.
	RetryJoin     []string
	RetryMax      int
	RetryInterval time.Duration
}

// tagLevel is the newest capability level that a server reads.
const tagLevel = "level"

const (
	// defaultRetryInterval is the pause between two tries to join.
	defaultRetryInterval = 30 * time.Second
	// logAgain is the pause between two lines of the log that say why nothing was joined, while
	// the cause is the same.
	logAgain = 5 * time.Minute
	// retellEvery is the interval at which a server checks that its announced tags are up
	// to date.
	retellEvery = time.Second
)

// Config configures a Joiner. All fields except Gossip and DataDir are required.
type Config struct {
	// Gossip is nil for a server on its own.
	Gossip *Gossip
	// ID, Region, Datacenter and Address (of the rpc port) describe this server.
	ID, Region, Datacenter, Address string
	// DataDir is the server's directory, "" if it has none.
	DataDir string
	// Level is the newest capability level that this server reads.
	Level int
	Role  pilot.Role
	// Fail is called with the reason if the server must be closed.
	Fail   func(error)
	Logger hclog.Logger
}

// Parts are the parts of the server that a Joiner uses. All fields are required.
type Parts struct {
	Raft  *consensus.Node
	Store *state.Store
	Pilot *pilot.Pilot
	// GiveKeys waits until another voter can open all root keys: see keyshare.GiveAway.
	GiveKeys func(ctx context.Context) error
}

// Joiner joins a server to others. Before Start, and without gossip, it knows no other
// servers.
type Joiner struct {
	cfg     Config
	parts   Parts
	members atomic.Pointer[membership.Membership] // nil before Start and without gossip
}

// New returns a Joiner, which can be asked at once.
func New(cfg Config) *Joiner { return &Joiner{cfg: cfg} }

// Start begins to gossip, if the configuration says so. Close ends it.
func (j *Joiner) Start(parts Parts) error {
	j.parts = parts
	g := j.cfg.Gossip
	if g == nil {
		return nil
	}
	conf := g.Config
	conf.ID, conf.Region, conf.Datacenter, conf.RPC, conf.Logger = j.cfg.ID, j.cfg.Region, j.cfg.Datacenter, j.cfg.Address, j.cfg.Logger
	if j.cfg.DataDir != "" {
		conf.Dir = filepath.Join(j.cfg.DataDir, "serf")
	}
	conf.Answer = parts.Pilot.Answer
	conf.Tags = j.cfg.Role.Tags()
	conf.Tags[tagLevel] = strconv.Itoa(j.cfg.Level)
	if parts.Raft.HasLog() {
		conf.Tags[founding.TagLog] = founding.LogKept
	}
	m, err := membership.Start(conf)
	if err != nil {
		return err
	}
	j.members.Store(m)
	parts.Pilot.Find(m)
	j.tell(m)
	return nil
}

// Close ends the gossip.
func (j *Joiner) Close() error {
	if m := j.members.Load(); m != nil {
		return m.Close()
	}
	return nil
}

// Members returns the gossip of the servers; nil if this server does not gossip.
func (j *Joiner) Members() *membership.Membership { return j.members.Load() }

// Run keeps the tags true, looks for other servers and founds a cluster if needed, until
// ctx ends.
func (j *Joiner) Run(ctx context.Context) {
	m := j.members.Load()
	if m == nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		select {
		case err := <-m.Failed():
			j.cfg.Fail(err)
		case <-ctx.Done():
		}
	})
	work.Go(func() { j.retryJoin(ctx) })
	if expect := j.cfg.Gossip.Expect; expect > 1 && !j.cfg.Role.Replica {
		work.Go(func() {
			founding.Founder{Raft: j.parts.Raft, Members: m, Expect: expect, Logger: j.cfg.Logger}.Run(ctx)
		})
	}
	tick := time.NewTicker(retellEvery)
	defer tick.Stop()
	for {
		j.tell(m)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell keeps the announced tags of this server up to date.
func (j *Joiner) tell(m *membership.Membership) {
	if id := j.parts.Store.View().Cluster().At(0).ClusterID; id != "" {
		if err := m.SetCluster(id); err != nil {
			j.cfg.Logger.Warn("the other servers do not hear the id of the cluster", "error", err)
		}
	}
	if j.parts.Raft.HasLog() && m.Self().Tags[founding.TagLog] == "" {
		if err := m.SetTag(founding.TagLog, founding.LogKept); err != nil {
			j.cfg.Logger.Warn("the other servers do not hear that this one has a log", "error", err)
		}
	}
}

// lookupTimeout limits the time in which the names of services are looked up.
const lookupTimeout = 10 * time.Second

// Join contacts other servers, resolving names of services. It returns how many have
// answered.
func (j *Joiner) Join(ctx context.Context, addresses []string) (int, error) {
	m := j.members.Load()
	if m == nil {
		return 0, errdefs.FailedPreconditionf("this server is on its own: a development agent does not gossip")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := srvname.Expand(ctx, addresses)
	if err != nil {
		return 0, err
	}
	n, err := m.Join(addresses)
	if err != nil {
		return n, err
	}
	if twin := m.Twin(); twin != "" {
		err := errdefs.FailedPreconditionf("the server %s has the id %s too: the data directory of one was copied to the other; stop this one, empty its data directory and start it again", twin, j.cfg.ID)
		j.cfg.Fail(err)
		return n, err
	}
	return n, nil
}

// errAlone means that only this server itself has answered: the same list of addresses may be
// in the configuration of all servers.
var errAlone = errors.New("only this server itself has answered")

// retryJoin joins the servers of the configuration.
func (j *Joiner) retryJoin(ctx context.Context) {
	if len(j.cfg.Gossip.RetryJoin) == 0 {
		return
	}
	j.retry(ctx, func(ctx context.Context) error {
		_, err := j.Join(ctx, j.cfg.Gossip.RetryJoin)
		if err == nil && j.Members().Alone() {
			err = errAlone
		}
		return err
	})
}

// retry calls join until it succeeds or was called RetryMax times.
func (j *Joiner) retry(ctx context.Context, join func(context.Context) error) {
	g := j.cfg.Gossip
	pause := g.RetryInterval
	if pause == 0 {
		pause = defaultRetryInterval
	}
	var logged time.Time
	var said string
	for try := 1; ; try++ {
		err := join(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		alone := errors.Is(err, errAlone) // which may be meant so, so it is no failure
		if g.RetryMax > 0 && try >= g.RetryMax {
			if !alone {
				j.cfg.Fail(fmt.Errorf("no server of retry_join could be joined in %d tries: %w", try, err))
			}
			return
		}
		if text := err.Error(); text != said || !alone && time.Since(logged) >= logAgain {
			said, logged = text, time.Now()
			j.cfg.Logger.Warn("no server of retry_join could be joined; trying again", "each", pause, "attempts", try, "error", err)
		}
		late := time.NewTimer(pause)
		select {
		case <-late.C:
		case <-ctx.Done():
			late.Stop()
			return
		}
	}
}
