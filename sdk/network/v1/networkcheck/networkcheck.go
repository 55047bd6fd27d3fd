// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package networkcheck holds the rules of sdk/network/v1 as named checks that can run
// against any network plugin. It owns the checks and does not link package testing.
// Only networktest, for authors' tests, and core/pluginhost/plugincheck, for `drover
// plugin check`, import it.
package networkcheck

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// Subject is the network plugin under test.
type Subject struct {
	// Connect returns the plugin as a freshly started process offers it, with the state
	// that an earlier process left. die kills the process, or what simulates it, without
	// a shutdown.
	Connect func(*conformance.T) (n network.Network, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Network is the network to check; "" means the first of the fingerprint.
	Network string
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine without networks: the plugin must then report a
	// Problem, and the checks that need a network are skipped.
	MayBeAbsent bool
}

// Check is one rule of the contract.
type Check struct {
	Name string // short identifier; never changes between versions
	Rule string // the rule in words
	run  func(*bench)
}

// Checks returns all checks.
func Checks() []Check { return append([]Check(nil), checks...) }

// Run runs the check against the subject.
func (c Check) Run(ctx context.Context, s Subject) conformance.Result {
	limit := s.Timeout
	if limit == 0 {
		limit = 2 * time.Minute
	}
	return conformance.Run(ctx, c.Name, c.Rule, limit, func(t *conformance.T) {
		b := &bench{t: t, ctx: t.Context(), subject: s}
		b.open()
		c.run(b)
	})
}

// bench is the state of one running check.
type bench struct {
	t       *conformance.T
	ctx     context.Context
	subject Subject
	n       network.Network
	die     func()
	config  []byte
}

// open connects to a fresh plugin and configures it, as the host does.
func (b *bench) open() {
	b.n, b.die = b.subject.Connect(b.t)
	b.config = conformance.Configure(b.t, b.n.Info().ConfigSchema, b.subject.Config, b.n.SetConfig)
}

// print returns the plugin's first fingerprint. It fails or skips the check if that has no
// networks.
func (b *bench) print() network.Fingerprint {
	f := conformance.FirstFingerprint(b.t, b.n.Fingerprint)
	if len(f.Networks) == 0 {
		if f.Problem == "" {
			b.t.Fatalf("no network, and no Problem that says why")
		}
		if !b.subject.MayBeAbsent {
			b.t.Fatalf("no network on this machine: %s", f.Problem)
		}
		b.t.Skipf("no network on this machine: %s", f.Problem)
	}
	return f
}
