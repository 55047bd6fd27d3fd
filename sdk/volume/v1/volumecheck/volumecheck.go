// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volumecheck holds the rules of sdk/volume/v1 as named checks that can run against
// any storage plugin. It owns the checks and does not link package testing. Only volumetest,
// for authors' tests, and core/pluginhost/plugincheck, for `drover plugin check`, import it.
package volumecheck

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// Subject is the storage plugin under test.
type Subject struct {
	// Connect returns the plugin as a freshly started process offers it, with the state
	// that an earlier process left. die kills the process, or what simulates it, without
	// a shutdown.
	Connect func(*conformance.T) (v volume.Volume, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Dir is a directory, as an absolute path, below which volumes are staged and
	// published.
	Dir string
	// The checks make volumes with these Parameters, Secrets, Access and Size. An
	// empty Access means a file system with one writer, and 0 a size of 16 MiB.
	Parameters map[string]string
	Secrets    volume.Secrets
	Access     volume.Access
	Size       int64
	// Existing is the id of a volume to use where the plugin makes none; "" leaves out the
	// checks that need one.
	Existing string
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine where the plugin cannot be used: it must then report a
	// Problem, and the checks that need it are skipped.
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
	if s.Access.Mode == "" {
		s.Access.Mode = volume.SingleNodeWriter
	}
	if s.Access.Attachment == "" {
		s.Access.Attachment = volume.AttachmentFileSystem
	}
	if s.Size == 0 {
		s.Size = 16 << 20
	}
	return conformance.Run(ctx, c.Name, c.Rule, limit, func(t *conformance.T) {
		b := &bench{t: t, ctx: t.Context(), subject: s, name: c.Name}
		defer b.end() // before the last process is
		b.open()
		c.run(b)
	})
}

// bench is the state of one running check.
type bench struct {
	t       *conformance.T
	ctx     context.Context
	subject Subject
	name    string // of the check
	v       volume.Volume
	die     func()
	config  []byte
	ends    []func() // what is left to do at the end, the last first
}

func (b *bench) atEnd(f func()) { b.ends = append(b.ends, f) }

func (b *bench) end() {
	for _, f := range slices.Backward(b.ends) {
		f()
	}
}

// open connects to a fresh plugin and configures it, as the host does.
func (b *bench) open() {
	b.v, b.die = b.subject.Connect(b.t)
	b.config = conformance.Configure(b.t, b.v.Info().ConfigSchema, b.subject.Config, b.v.SetConfig)
}

// print returns the first fingerprint without a problem.
func (b *bench) print() volume.Fingerprint {
	f := conformance.FirstFingerprint(b.t, b.v.Fingerprint)
	if f.Problem != "" {
		if !b.subject.MayBeAbsent {
			b.t.Fatalf("it cannot be used on this machine: %s", f.Problem)
		}
		b.t.Skipf("it cannot be used on this machine: %s", f.Problem)
	}
	return volume.Complete(b.v, f)
}

// needs returns the ability A of the plugin, and skips the check if it does not have it.
func needs[A any](b *bench, can volume.Capability) A {
	f := b.print()
	if !f.Can(can) {
		b.t.Skipf("the plugin does not have the capability %q", can)
	}
	a, ok := b.v.(A)
	if !ok {
		b.t.Fatalf("the fingerprint lists %q, and the plugin does not have its calls", can)
	}
	return a
}

// nobody is the id of no volume.
const nobody = "drover-check-no-such-volume"

func (b *bench) path(name string) string { return filepath.Join(b.subject.Dir, b.name, name) }
