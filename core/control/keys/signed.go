// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// slack is how much longer than its lifetime a token may be in use: clocks differ, and a
// prepublished key becomes active a little after its time.
const slack = time.Hour

// Signed returns whether a key that is not active any more may have signed a token that is
// still valid. It is not stored which key signed which token, so this is derived from the
// allocs: one that has not ended and was placed before the key was retired may hold tokens
// that the key signed. Those without a lifetime are valid as long as the alloc runs. Others
// are valid until their lifetime ends, and nodes renew them with the new key.
func Signed(in Ring, now time.Time) func(*model.RootKey) bool {
	first := map[time.Duration]uint64{}
	byGroup := map[groupKey][]time.Duration{}
	for a := range in.Allocs() {
		if a.ClientTerminalStatus() {
			continue
		}
		for _, ttl := range lifetimes(in, a, byGroup) {
			if at, seen := first[ttl]; !seen || a.CreateIndex < at {
				first[ttl] = a.CreateIndex
			}
		}
	}
	return func(k *model.RootKey) bool {
		retired := retiredAt(in, k)
		for ttl, index := range first {
			// A key is changed when it is retired, so its ModifyIndex is at least that index.
			if index <= k.ModifyIndex && (ttl == 0 || now.Before(retired.Add(ttl+slack))) {
				return true
			}
		}
		return false
	}
}

type groupKey struct {
	job   *model.Job
	group string
}

// lifetimes returns the lifetimes of the tokens of an alloc's tasks. 0 means that a token ends
// with the alloc.
func lifetimes(in Ring, a *model.Allocation, known map[groupKey][]time.Duration) []time.Duration {
	job := in.JobOf(a)
	if job == nil {
		return nil
	}
	key := groupKey{job, a.TaskGroup}
	if out, ok := known[key]; ok {
		return out
	}
	var out []time.Duration
	if tg := job.LookupTaskGroup(a.TaskGroup); tg != nil {
		for _, t := range tg.Tasks {
			for _, id := range t.ShownIdentities() {
				out = append(out, id.TTL)
			}
		}
	}
	known[key] = out
	return out
}

// retiredAt is when the next key after k became active.
func retiredAt(in Ring, k *model.RootKey) (first time.Time) {
	for other := range in.RootKeys() {
		if at := since(other); other.KeyID != k.KeyID && other.State != model.RootKeyPrepublished && at.After(since(k)) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
