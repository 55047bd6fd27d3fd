// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package keyshare brings the secrets of root keys to every server of the cluster. Each
// server announces its public key to the leader (Keeper). The leader stores it, adds the
// secrets encrypted for it, and removes the keys of servers that are no longer members
// (Sharer). Its caller provides the way to the leader; core/auth/keyring encrypts and
// decrypts. core/server composes it.
package keyshare

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/recur"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// needs is the capability level of the commands.
const needs = 2

// period is the interval at which the members are checked, since they are not in state, and
// the pause after a failure.
const period = 2 * time.Second

// timeout limits one write or announcement.
const timeout = 10 * time.Second

// Sharer does the leader's part.
type Sharer struct {
	Store *state.Store
	Log   propose.Log
	Ring  *keyring.Keyring
	// Members returns the ids of the servers in the raft configuration.
	Members func() ([]string, error)
	// CanLead returns the others that have a vote and keep up: handing the lead to any
	// other server would only stop writes for a while.
	CanLead func() ([]string, error)
	// Transfer makes another server the leader. It is called if this one cannot open a
	// root key that the other can.
	Transfer func(ctx context.Context, serverID string) error
	Logger   hclog.Logger

	handing time.Time // when this server may next hand its lead over; zero while it can open all root keys
}

// A leader that cannot open all root keys waits for patience before it hands its lead over,
// and for pause before it tries again: writes stand still meanwhile, and the server that
// has the keys may be the one that was lost.
const (
	patience = 5 * time.Second
	pause    = time.Minute
)

// Run keeps the secrets of all servers complete until ctx ends.
func (s *Sharer) Run(ctx context.Context) { loop(s.Store, s.Logger).Run(ctx, s.Once) }

// loop configures when the keys are checked. After a failure only the period triggers the
// next check.
func loop(store *state.Store, logger hclog.Logger) recur.Loop {
	return recur.Loop{
		Period: period, Store: store, Tables: []string{state.TableRootKeys, state.TableServerKeys, state.TableCluster}, Patient: true,
		Trouble: "the keyring is not complete; it is tried again", Logger: logger,
	}
}

// Once makes one step. If it changes nothing, no further step is needed.
func (s *Sharer) Once(ctx context.Context) error {
	view := s.Store.View()
	if view.Level() < needs {
		return nil
	}
	members, err := s.Members()
	if err != nil {
		return err
	}
	commands, err := Next(view, s.Ring, members)
	if err != nil {
		return s.handOver(ctx, view, err)
	}
	s.handing = time.Time{}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, c := range commands {
		_, err := propose.Commands(ctx, s.Log, c)
		if errdefs.IsAborted(err) || errdefs.IsNotFound(err) {
			return nil // the state has changed meanwhile, which triggers another step
		}
		if err != nil {
			return fmt.Errorf("give the servers the root keys: %w", err)
		}
	}
	return nil
}

// handOver hands the lead to a server that can open all root keys, because this one cannot.
// If that server has no vote yet, this one stays leader so that autopilot can give it a
// vote.
func (s *Sharer) handOver(ctx context.Context, view *state.View, why error) error {
	switch now := time.Now(); {
	case !errdefs.IsUnavailable(why):
		return why
	case s.handing.IsZero():
		s.handing = now.Add(patience)
		return why
	case now.Before(s.handing):
		return why
	default:
		s.handing = now.Add(pause)
	}
	able, err := s.CanLead()
	if err != nil {
		return err
	}
	other := Other(view, s.Ring, able)
	if other == "" {
		return why
	}
	s.Logger.Info("this server leads but has not received all root keys; it hands the lead to a server that has", "server", other)
	return s.Transfer(ctx, other)
}

// Other returns one of the servers that can open all root keys and is not the server of
// ring, "" if there is none.
func Other(view *state.View, ring *keyring.Keyring, servers []string) string {
	for key := range view.ServerKeys() {
		if !slices.Contains(servers, key.ServerID) || bytes.Equal(key.Public, ring.Public()) {
			continue
		}
		able := true
		for root := range view.RootKeys() {
			able = able && root.WrapFor(key.Public) != nil
		}
		if able {
			return key.ServerID
		}
	}
	return ""
}

// Next returns the commands that the keys in state still need, in order: this server's
// public key, the secrets that are missing, and, when this server can open all, the removal
// of servers that are no longer members. The error comes from keyring.Opens.
func Next(view *state.View, ring *keyring.Keyring, members []string) ([]fsm.Command, error) {
	own := ring.Server()
	if !slices.Contains(members, own.ServerID) {
		return nil, nil // it has been removed, or the configuration is not known yet
	}
	if known := view.ServerKeyByID(own.ServerID); known == nil || !bytes.Equal(known.Public, own.Public) {
		return []fsm.Command{&fsm.UpsertServerKey{Key: own, Replace: true}}, nil
	}
	var present []*model.ServerKey
	var out []fsm.Command
	for key := range view.ServerKeys() {
		if slices.Contains(members, key.ServerID) {
			present = append(present, key)
		}
	}
	for root := range view.RootKeys() {
		missing := slices.DeleteFunc(slices.Clone(present), func(key *model.ServerKey) bool { return root.WrapFor(key.Public) != nil })
		if len(missing) == 0 && len(root.Sealed) == 0 {
			continue
		}
		c, err := wrap(ring, root, missing, present)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) > 0 {
		return out, nil
	}
	for key := range view.ServerKeys() {
		if !slices.Contains(members, key.ServerID) {
			out = append(out, &fsm.DeleteServerKey{ServerID: key.ServerID})
		}
	}
	return out, nil
}

func wrap(ring *keyring.Keyring, root *model.RootKey, missing, present []*model.ServerKey) (fsm.Command, error) {
	c := &fsm.WrapRootKey{KeyID: root.KeyID, Index: root.ModifyIndex}
	var err error
	if len(root.Sealed) > 0 {
		c.Unseal, missing = true, present
		if c.SecretRSA, err = ring.Unseal(root); err != nil {
			return nil, err
		}
	}
	c.Wraps, err = ring.Wrap(root, missing)
	return c, err
}

// Accept stores the public key of a server that announces it; the leader calls it.
// Conflict: the cluster has another public key for the same server. Unavailable: the server
// is not a member yet, or the level of the cluster is too low.
func (s *Sharer) Accept(ctx context.Context, key *model.ServerKey) error {
	if err := keyring.CheckPublic(key); err != nil {
		return err
	}
	members, err := s.Members()
	if err != nil {
		return err
	}
	if !slices.Contains(members, key.ServerID) {
		return errdefs.Unavailablef("server %s is not a member of this cluster yet", key.ServerID)
	}
	_, err = propose.Commands(ctx, s.Log, &fsm.UpsertServerKey{Key: key})
	return err
}

// Keeper does the part of every server: it announces its public key, and removes the key
// file of an earlier release when it is not needed any more.
type Keeper struct {
	Store *state.Store
	Ring  *keyring.Keyring
	// Announce brings the public key to the leader: see Sharer.Accept.
	Announce func(ctx context.Context, key *model.ServerKey) error
	Logger   hclog.Logger
}

// Run runs until ctx ends.
func (k *Keeper) Run(ctx context.Context) { loop(k.Store, k.Logger).Run(ctx, k.Once) }

// Once announces the public key if the state does not have it.
func (k *Keeper) Once(ctx context.Context) error {
	view, own := k.Store.View(), k.Ring.Server()
	if view.Level() < needs {
		return nil
	}
	known := view.ServerKeyByID(own.ServerID)
	if err := k.Ring.Check(view.RootKeys(), known); err != nil {
		return err
	}
	if known == nil {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := k.Announce(ctx, own); err != nil {
			return fmt.Errorf("announce the public key of this server: %w", err)
		}
		return nil
	}
	removed, err := k.Ring.Forget(view.RootKeys())
	if removed {
		k.Logger.Info("all root keys are encrypted for the key pairs of the servers, so " + keyring.SealName + " was removed; to restore a snapshot from before, put it back from a backup")
	}
	return err
}
