// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"encoding/json"
	"path"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits and defaults of a registered plugin.
const (
	DefaultPluginMaxParallel     = 1
	MaxPluginMaxParallel         = 500 // limits what one step of a roll-out stores
	DefaultPluginHealthyDeadline = 5 * time.Minute
	DefaultPluginMinHealthyTime  = 10 * time.Second
	MinPluginHealthyDeadline     = 10 * time.Second
	MaxPluginHealthyDeadline     = 24 * time.Hour
	MaxPluginConfigBytes         = 256 << 10
	maxPluginConstraints         = 64
)

// PluginSourceUploaded is the Source of a file that was uploaded to the servers.
const PluginSourceUploaded = "uploaded"

// PluginSpec is a plugin of the cluster's registry: the file that nodes fetch, verify
// and run, and the progress of its newest release.
type PluginSpec struct {
	Name string // name of the file in the nodes' plugin directories
	// Release is the release that all nodes should have. Previous is the newest
	// earlier release that all nodes had, nil if there is none.
	Release  *PluginRelease
	Previous *PluginRelease

	Datacenters []string // globs; empty means all
	NodePool    string   // "" and "all" mean all
	Constraints []*Constraint

	MaxParallel     int           // number of nodes that may change at the same time
	HealthyDeadline time.Duration // per node, from its admission
	MinHealthyTime  time.Duration // time that a node must run the release before it counts as done
	AutoRevert      bool          // revert to Previous if the release fails

	Rollout     *PluginRollout
	CreateIndex uint64
	ModifyIndex uint64
}

// PluginRelease is one file and its configuration.
type PluginRelease struct {
	// Revision is the index at which it was registered. If the same file is registered
	// again after a failure, it is a new release.
	Revision uint64
	Version  string // version that the plugin must report; "" means any
	Digest   string // "sha256:HEX" of the file
	Source   string // http(s) URL, an absolute path on each node, or PluginSourceUploaded
	// Config, if not nil, replaces the config of the plugin block in the nodes' agent
	// configuration.
	Config map[string]any
}

// Same reports whether two releases have the same file and configuration.
func (r *PluginRelease) Same(o *PluginRelease) bool {
	return r != nil && o != nil && r.Version == o.Version && r.Digest == o.Digest && r.Source == o.Source && sameConfig(r.Config, o.Config)
}

// sameConfig compares two configurations as JSON, because the log's codec does not
// preserve the types of numbers.
func sameConfig(a, b map[string]any) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Label returns the name of the release for users.
func (r *PluginRelease) Label() string {
	if r.Version != "" {
		return r.Version
	}
	digest := strings.TrimPrefix(r.Digest, "sha256:")
	return digest[:min(len(digest), 12)]
}

// Copy returns a spec that shares nothing with p.
func (p *PluginSpec) Copy() *PluginSpec { return deepCopy(p) }

// Canonicalize fills in defaults.
func (p *PluginSpec) Canonicalize() {
	if p.MaxParallel == 0 {
		p.MaxParallel = DefaultPluginMaxParallel
	}
	if p.HealthyDeadline == 0 {
		p.HealthyDeadline = DefaultPluginHealthyDeadline
	}
	if p.MinHealthyTime == 0 {
		p.MinHealthyTime = DefaultPluginMinHealthyTime
	}
}

var (
	pluginName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)
	pluginDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ValidatePluginDigest returns an error if digest is not a valid file digest.
func ValidatePluginDigest(digest string) error {
	if !pluginDigest.MatchString(digest) {
		return errdefs.InvalidArgumentf("digest %q is not of the form sha256:HEX with 64 lower-case digits; sha256sum prints the digits", digest)
	}
	return nil
}

// Validate returns an error if a canonical spec that a client registers is invalid.
func (p *PluginSpec) Validate() error {
	var problems ValidationError
	if !pluginName.MatchString(p.Name) {
		problems.addf("name %q must be a file name of letters, digits, '.', '_' and '-', at most 128 of them", p.Name)
	}
	if p.MaxParallel < 1 || p.MaxParallel > MaxPluginMaxParallel {
		problems.addf("max_parallel %d must be between 1 and %d", p.MaxParallel, MaxPluginMaxParallel)
	}
	if p.HealthyDeadline < MinPluginHealthyDeadline || p.HealthyDeadline > MaxPluginHealthyDeadline {
		problems.addf("healthy_deadline %s must be between %s and %s", p.HealthyDeadline, MinPluginHealthyDeadline, MaxPluginHealthyDeadline)
	}
	if p.MinHealthyTime < 0 || p.MinHealthyTime >= p.HealthyDeadline {
		problems.addf("min_healthy_time %s must be shorter than healthy_deadline %s", p.MinHealthyTime, p.HealthyDeadline)
	}
	p.validateTarget(&problems)
	p.Release.validate(&problems)
	return problems.err()
}

func (p *PluginSpec) validateTarget(problems *ValidationError) {
	for _, dc := range p.Datacenters {
		if _, err := path.Match(dc, ""); err != nil || dc == "" {
			problems.addf("datacenter %q is neither a name nor a pattern", dc)
		}
	}
	if len(p.Constraints) > maxPluginConstraints {
		problems.addf("%d constraints are more than the %d that a plugin may have", len(p.Constraints), maxPluginConstraints)
		return
	}
	validateConstraints(problems, p.Constraints)
	for _, c := range p.Constraints {
		if c != nil && (c.Operand == ConstraintDistinctHosts || c.Operand == ConstraintDistinctProperty) {
			problems.addf("constraint %s is about allocations; a plugin runs once on each node", c.Operand)
		}
	}
}

func (r *PluginRelease) validate(problems *ValidationError) {
	if r == nil {
		problems.addf("the release is missing: give its digest and where to get it")
		return
	}
	if err := ValidatePluginDigest(r.Digest); err != nil {
		problems.addf("%w", err)
	}
	switch {
	case r.Source == PluginSourceUploaded, strings.HasPrefix(r.Source, "https://"), strings.HasPrefix(r.Source, "http://"), path.IsAbs(r.Source):
	case r.Source == "":
		problems.addf("the source is missing: give a URL, an absolute path that all nodes have, or %q", PluginSourceUploaded)
	default:
		problems.addf("source %q is not an http(s) URL, an absolute path or %q", r.Source, PluginSourceUploaded)
	}
	if text, err := json.Marshal(r.Config); err != nil {
		problems.addf("the config is no JSON: %w", err)
	} else if len(text) > MaxPluginConfigBytes {
		problems.addf("the config has %d bytes, more than %d", len(text), MaxPluginConfigBytes)
	}
}

// sameTarget reports whether two specs select the same nodes.
func (p *PluginSpec) sameTarget(o *PluginSpec) bool {
	return reflect.DeepEqual(orNone(p.Datacenters), orNone(o.Datacenters)) && p.NodePool == o.NodePool &&
		reflect.DeepEqual(orNone(p.Constraints), orNone(o.Constraints))
}

// orNone makes empty and nil lists compare as equal.
func orNone[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
