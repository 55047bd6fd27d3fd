// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys

import (
	"iter"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Limits say how old root keys become.
type Limits struct {
	// Rotation is the age at which the active key is replaced, and Removal the age from
	// which a key that nothing needs any more is removed.
	Rotation, Removal time.Duration
	// Interval is how often this is looked at.
	Interval time.Duration
}

// DefaultLimits returns the limits of a server that sets none.
func DefaultLimits() Limits {
	return Limits{Rotation: 720 * time.Hour, Removal: time.Hour, Interval: 10 * time.Minute}
}

// Ring is the part of the state that Due reads.
type Ring interface {
	RootKeys() iter.Seq[*model.RootKey]
	Variables(namespace, prefix string) iter.Seq[*model.Variable]
}

// Due says whether the active key is to be replaced, and which keys are to be removed: old
// ones that are not active and with which no variable is encrypted. A prepublished key
// replaces the active one at its own time, so nothing else does. The state refuses to
// remove a key that a variable has begun to use meanwhile.
func (l Limits) Due(in Ring, now time.Time) (rotate bool, remove []string) {
	old := func(k *model.RootKey, limit time.Duration) bool { return now.Sub(time.Unix(0, k.CreateTime)) >= limit }
	var idle []*model.RootKey
	awaited := false
	for k := range in.RootKeys() {
		switch k.State {
		case model.RootKeyActive:
			rotate = rotate || old(k, l.Rotation)
		case model.RootKeyPrepublished:
			awaited = true
		case model.RootKeyInactive:
			if old(k, l.Removal) {
				idle = append(idle, k)
			}
		}
	}
	if len(idle) == 0 {
		return rotate && !awaited, nil
	}
	used := map[string]bool{}
	for v := range in.Variables("", "") {
		used[v.KeyID] = true
	}
	for _, k := range idle {
		if !used[k.KeyID] {
			remove = append(remove, k.KeyID)
		}
	}
	return rotate && !awaited, remove
}
