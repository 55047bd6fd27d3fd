// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// Choose lets tests see the choice of versions with any that a host might know.
var Choose = choose

// KindText writes kinds as one text.
func KindText(kinds []plugin.Kind) string {
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprint(kinds)
}

// Rocks is a kind for tests: all that a kind must have.
type Rocks struct {
	kind[rock, int, *rockSlot]
	// Config is called for each configuration; nil accepts it.
	Config func(context.Context) error
}

type rock struct {
	name   string
	config func(context.Context) error // nil accepts
}

// SetConfig takes no config.
func (r rock) SetConfig(ctx context.Context, _ []byte) error {
	if r.config == nil {
		return nil
	}
	return r.config(ctx)
}

type rockSlot struct {
	plain[rock, int]
	version string // of the process that serves it
	weight  int    // its newest fingerprint
	problem error  // why it cannot be used
	silent  error  // why there is no fingerprint
}

func (s *rockSlot) serves(_ rock, from origin, problem error) {
	s.version, s.problem = from.version, problem
}
func (s *rockSlot) lost(rock, error)     { s.version = "" }
func (s *rockSlot) take(weight int)      { s.weight, s.silent = weight, nil }
func (s *rockSlot) trouble(why error)    { s.silent = why }
func (s *rockSlot) release() (kept bool) { return false }
func (s *rockSlot) close()               {}

// NewRocks makes the kind; each process serves the names.
func NewRocks(names ...string) *Rocks {
	r := &Rocks{}
	r.kind = newKind(Config{Logger: hclog.NewNullLogger()}, spec[rock, int, *rockSlot]{
		noun: "rock",
		connect: func(context.Context, *process.Process) (out []rock, err error) {
			for _, name := range names {
				out = append(out, rock{name, r.Config})
			}
			return out, nil
		},
		about: func(b rock) (string, schema.Schema) { return b.name, schema.Schema{} },
		slot:  func(rock, string) *rockSlot { return &rockSlot{} },
		fingerprint: func(_ rock, ctx context.Context) (<-chan int, error) {
			weights := make(chan int, 1)
			weights <- 1
			context.AfterFunc(ctx, func() { close(weights) })
			return weights, nil
		},
		present: func(weight int) bool { return weight > 0 },
	})
	return r
}

// Attach reserves the names for the plugin of a process.
func (r *Rocks) Attach(ctx context.Context, p *process.Process) (Part, error) {
	return r.attach(ctx, p)
}

// Refusals returns why a plugin did not get names.
func (r *Rocks) Refusals(plugin string) []error {
	why, _ := r.unclaimed(plugin)
	return why
}

// Release frees the names of a plugin.
func (r *Rocks) Release(plugin string, keep []string) { r.release(plugin, keep) }

// Weight is the newest fingerprint.
func (r *Rocks) Weight(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].slot.weight
}

// Problem is why a name cannot be used.
func (r *Rocks) Problem(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].slot.problem
}

// Silent is why a name has no fingerprint.
func (r *Rocks) Silent(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].slot.silent
}

// ServedBy is the version of the process that serves a name.
func (r *Rocks) ServedBy(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].slot.version
}
