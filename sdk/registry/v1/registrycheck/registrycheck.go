// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registrycheck holds the rules of sdk/registry/v1 as named checks that can run
// against any registry. It owns the checks and does not link package testing.
// Only registrytest, for authors' tests, and core/pluginhost/plugincheck, for `drover
// plugin check`, import it.
package registrycheck

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Subject is the registry under test.
type Subject struct {
	// Connect returns the registry as a freshly started process offers it, with the state
	// that an earlier process left. die kills the process, or what simulates it, without
	// a shutdown.
	Connect func(*conformance.T) (r registry.Registry, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// Settle is how long the cluster may take to know of a change; 0 means 10 s.
	Settle time.Duration
	// MayBeAbsent allows a machine from which no cluster can be reached: each must then have a
	// Problem, and the checks that need one are skipped.
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
	r       registry.Registry
	die     func()
	config  []byte
}

// open connects to a fresh plugin and configures it, as the host does.
func (b *bench) open() {
	b.r, b.die = b.subject.Connect(b.t)
	b.config = conformance.Configure(b.t, b.r.Info().ConfigSchema, b.subject.Config, b.r.SetConfig)
}

// print returns the registry's first fingerprint.
func (b *bench) print() registry.Fingerprint {
	return conformance.FirstFingerprint(b.t, b.r.Fingerprint)
}

// cluster returns the name of a healthy cluster. It fails or skips the check if there is none.
func (b *bench) cluster() string {
	f := b.print()
	for _, c := range f.Clusters {
		if c.Healthy {
			return c.Name
		}
		if c.Problem == "" {
			b.t.Fatalf("cluster %q is not healthy, and no Problem says why", c.Name)
		}
	}
	if !b.subject.MayBeAbsent {
		b.t.Fatalf("no cluster can be reached: %+v", f.Clusters)
	}
	b.t.Skipf("no cluster can be reached: %+v", f.Clusters)
	return ""
}
