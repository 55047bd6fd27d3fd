// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package devicecheck holds the rules of sdk/device/v1 as named checks that can run
// against any device plugin. It owns the checks and does not link package testing.
// Only devicetest, for authors' tests, and core/pluginhost/plugincheck, for `drover
// plugin check`, import it.
package devicecheck

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
)

// Subject is the device plugin under test.
type Subject struct {
	// Connect returns the plugin as a freshly started process offers it. die kills the
	// process, or what simulates it, without a shutdown.
	Connect func(*conformance.T) (d device.Device, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine without devices: the plugin must then report a
	// Problem, and the checks that need a device are skipped.
	MayBeAbsent bool
	// Foreign marks a plugin that was built for Nomad. Nomad's protocol has no error
	// classes, so the checks accept any error where the contract requires a class.
	Foreign bool
}

// Check is one rule of the contract.
type Check struct {
	Name string // short identifier; never changes between versions
	Rule string // the rule in words
	// needs reports whether the rule applies to a plugin, from its features; nil means that
	// it applies to all.
	needs func(device.Device) bool
	run   func(*bench)
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
		if c.needs != nil && !c.needs(b.d) {
			t.Skipf("the plugin does not announce this ability")
		}
		c.run(b)
	})
}

// bench is the state of one running check.
type bench struct {
	t       *conformance.T
	ctx     context.Context
	subject Subject
	d       device.Device
	die     func()
	config  []byte
}

// open connects to a fresh plugin and configures it, as the host does.
func (b *bench) open() {
	b.d, b.die = b.subject.Connect(b.t)
	b.config = conformance.Configure(b.t, b.d.Info().ConfigSchema, b.subject.Config, b.d.SetConfig)
}

// groups returns the groups in the plugin's first fingerprint.
func (b *bench) groups() []device.Group {
	f := conformance.FirstFingerprint(b.t, b.d.Fingerprint)
	if len(f.Groups) == 0 {
		if f.Problem == "" {
			b.t.Fatalf("no device, and no Problem that says why")
		}
		if !b.subject.MayBeAbsent {
			b.t.Fatalf("no device on this machine: %s", f.Problem)
		}
		b.t.Skipf("no device on this machine: %s", f.Problem)
	}
	return f.Groups
}
