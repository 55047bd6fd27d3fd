// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys

import (
	"iter"
	"slices"
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
	CSIVolumes() iter.Seq[*model.CSIVolume]
	Allocs() iter.Seq[*model.Allocation]
	JobOf(a *model.Allocation) *model.Job
}

// Due is what is to be done about the age of root keys.
type Due struct {
	// Publish is when a new key is to become active; zero if none is to be made. A time that
	// is not in the future means at once.
	Publish time.Time
	Remove  []string
}

// Due says what is to be done. At half of its age the active key gets a successor, which is
// published until it becomes active, so that verifiers know it before the first token is
// signed with it. An inactive key is removed once no variable is encrypted with it and no
// token that it has signed is valid any more. The state refuses to remove a key that a
// variable has begun to use meanwhile.
func (l Limits) Due(in Ring, now time.Time) (out Due) {
	var active *model.RootKey
	var idle []*model.RootKey
	awaited := false
	for k := range in.RootKeys() {
		switch k.State {
		case model.RootKeyActive:
			active = k
		case model.RootKeyPrepublished:
			awaited = true
		case model.RootKeyInactive:
			if now.Sub(time.Unix(0, k.CreateTime)) >= l.Removal {
				idle = append(idle, k)
			}
		}
	}
	if active != nil && !awaited && now.Sub(since(active)) >= l.Rotation/2 {
		out.Publish = since(active).Add(l.Rotation)
	}
	if len(idle) == 0 {
		return out
	}
	used := map[string]bool{}
	for v := range in.Variables("", "") {
		used[v.KeyID] = true
	}
	for v := range in.CSIVolumes() {
		used[v.SecretsKeyID] = true
	}
	idle = slices.DeleteFunc(idle, func(k *model.RootKey) bool { return used[k.KeyID] })
	if len(idle) == 0 {
		return out
	}
	signed := Signed(in, now)
	for _, k := range idle {
		if !signed(k) {
			out.Remove = append(out.Remove, k.KeyID)
		}
	}
	return out
}

// since returns when a key became active or will become active.
func since(k *model.RootKey) time.Time { return time.Unix(0, max(k.CreateTime, k.PublishTime)) }
