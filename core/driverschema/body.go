// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverschema owns what servers know about task drivers: the body
// that a driver publishes (its capabilities and the schema of a task's config block),
// its hash, and the check of a job against the bodies in a cluster. It does not own
// the storage of bodies (core/state), their transport (core/agent, core/dispatch) or
// the positions of findings in job files (core/jobspec), nor the rules that only a driver's
// code can check, for which it says who is to be asked. core/agent, core/dispatch and
// core/endpoint import it.
package driverschema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Limits of a body. The largest body of a first-party driver has 8 KiB.
const (
	MaxBytes      = 128 << 10
	maxDepth      = 16
	maxAttributes = 2048
	maxName       = 128
)

// Body is what a driver publishes.
type Body struct {
	Driver       string        `json:"driver"`
	Capabilities Capabilities  `json:"capabilities"`
	Task         schema.Schema `json:"task"`

	hash string // set by Decode
}

// Hash returns the hash of a body that Decode has returned.
func (b *Body) Hash() string { return b.hash }

// Capabilities are the capabilities of sdk/driver/v1 that a job can use.
type Capabilities struct {
	SendSignals          bool     `json:"send_signals,omitempty"`
	Exec                 bool     `json:"exec,omitempty"`
	NetworkModes         []string `json:"network_modes,omitempty"`
	MountConfigs         bool     `json:"mount_configs,omitempty"`
	DisableLogCollection bool     `json:"disable_log_collection,omitempty"`
	Ignores              []string `json:"ignores,omitempty"`
	// Validates means that the driver has rules beyond its schema, and that its nodes can
	// check a config against them (driver.Validator).
	Validates bool `json:"validates,omitempty"`
}

// Encode returns the encoding of a body and its hash. It returns the same error as
// servers would for a body that they refuse.
func (b *Body) Encode() (hash string, data []byte, err error) {
	if data, err = json.Marshal(b); err != nil {
		return "", nil, errdefs.InvalidArgumentf("the schema of driver %q cannot be written as JSON: %w", b.Driver, err)
	}
	if _, err := Decode(data); err != nil {
		return "", nil, err
	}
	return Hash(data), data, nil
}

// Hash returns the hash of a body.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// IsHash reports whether text has the form of a hash.
func IsHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 16
}

// Decode decodes a body from another machine. Parts of the schema that this version
// does not know accept any value, because the driver may be newer.
func Decode(data []byte) (*Body, error) {
	if len(data) > MaxBytes {
		return nil, errdefs.InvalidArgumentf("the schema of a driver has %d bytes; at most %d are kept: shorten its descriptions", len(data), MaxBytes)
	}
	b := &Body{}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, errdefs.InvalidArgumentf("the schema of a driver cannot be read: %w", err)
	}
	if b.Driver == "" || len(b.Driver) > maxName {
		return nil, errdefs.InvalidArgumentf("the schema of a driver names no driver, or one with more than %d bytes", maxName)
	}
	left := maxAttributes
	if err := settle(&b.Task, b.Driver, 0, &left); err != nil {
		return nil, err
	}
	b.hash = Hash(data)
	return b, nil
}

// settle checks the limits of a schema and makes parts that cannot be checked accept
// any value.
func settle(s *schema.Schema, driver string, depth int, left *int) error {
	if *left -= len(s.Attributes); *left < 0 || depth > maxDepth {
		return errdefs.InvalidArgumentf("the schema of driver %q has more than %d attributes or blocks nested more than %d deep", driver, maxAttributes, maxDepth)
	}
	for i := range s.Attributes {
		a := &s.Attributes[i]
		nested := a.Type == schema.Block || a.Type == schema.BlockList
		if !slices.Contains(schema.Types, a.Type) || nested != (a.Block != nil) {
			a.Type, a.Block = schema.Any, nil
		}
		if a.Block != nil {
			if err := settle(a.Block, driver, depth+1, left); err != nil {
				return err
			}
		}
	}
	return nil
}
