// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Store stores the data that the agent needs after it was killed. Get of a missing key
// returns NotFound.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error
}

// record is the stored data about a process.
type record struct {
	PID      int
	Network  string
	Address  string
	Identity string
	Version  int // version of the protocol
	// Started distinguishes the process from a later one with the same PID; "" if the
	// system does not report it.
	Started string
	Args    []string `json:",omitempty"`
	// Keys and Server are the certificates of both sides; nil if the process knows
	// none. The store is the agent's alone, because of the key.
	Keys   *keyPair `json:",omitempty"`
	Server []byte   `json:",omitempty"`
	// Granted are the rights of the process; nil in records of agents that did not restrict
	// plugins.
	Granted *Granted `json:",omitempty"`
}

func storeKey(name string) string { return "pluginhost/" + filepath.Base(name) }

// record returns the record by which the next agent finds the process; false if it
// has ended.
func (p *Process) record() (record, bool) {
	addr := p.client.addr
	if addr == nil {
		return record{}, false
	}
	return record{
		PID: p.PID, Network: addr.Network(), Address: addr.String(), Identity: p.Identity, Version: p.version,
		Started: startOf(p.PID), Args: p.launcher.cfg.Args[p.File.Block()], Keys: p.keys, Server: p.keys.serverCert(), Granted: &p.Granted,
	}, true
}

// recorded returns the stored record of the current process; nil if there is none.
func (l *Launcher) recorded(ctx context.Context, name string) (*record, error) {
	if l.cfg.Store == nil {
		return nil, nil
	}
	body, err := l.cfg.Store.Get(ctx, storeKey(name))
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored data of the plugin process: %w", err)
	}
	rec := &record{}
	if err := json.Unmarshal(body, rec); err != nil {
		return nil, fmt.Errorf("decode the stored data of the plugin process: %w", err)
	}
	if rec.Version == 0 { // written by an agent that knew one protocol only
		rec.Version = plugin.ProtocolVersion
	}
	return rec, nil
}

// Save records a process as its plugin's current one, for the next agent.
func (l *Launcher) Save(ctx context.Context, p *Process) error {
	rec, ok := p.record()
	if l.cfg.Store == nil || !ok {
		return nil
	}
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode the stored data of the plugin process: %w", err)
	}
	if err := l.cfg.Store.Put(ctx, storeKey(p.File.Name), body); err != nil {
		return fmt.Errorf("store the data of the plugin process: %w", err)
	}
	return nil
}

// Forget removes the record of a plugin's process, which has ended.
func (l *Launcher) Forget(name string) {
	if l.cfg.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.cfg.Store.Delete(ctx, storeKey(name)); err != nil && !errdefs.IsNotFound(err) {
		l.cfg.Logger.Warn("cannot forget an ended plugin process", "plugin", name, "error", err)
	}
}
