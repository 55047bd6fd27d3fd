// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys_test

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/model"
)

// ring is a state of its own making.
type ring struct {
	roots  []*model.RootKey
	allocs []*model.Allocation
}

func (r ring) RootKeys() iter.Seq[*model.RootKey]     { return slices.Values(r.roots) }
func (r ring) CSIVolumes() iter.Seq[*model.CSIVolume] { return func(func(*model.CSIVolume) bool) {} }

func (r ring) Variables(string, string) iter.Seq[*model.Variable] {
	return slices.Values([]*model.Variable(nil))
}
func (r ring) Allocs() iter.Seq[*model.Allocation]  { return slices.Values(r.allocs) }
func (r ring) JobOf(a *model.Allocation) *model.Job { return a.Job }

func TestAKeyStaysWhileATokenOfItMayLive(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(0, int64(d)) }
	group := func(id *model.WorkloadIdentity) *model.Job {
		return &model.Job{TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t", Identity: id}}}}}
	}
	endless, hidden := &model.WorkloadIdentity{Env: true}, &model.WorkloadIdentity{}
	short := &model.WorkloadIdentity{Name: "x", File: true, TTL: 10 * time.Hour}
	// The key a was retired at index 20, 100 hours after the beginning.
	roots := []*model.RootKey{
		{KeyID: "a", State: model.RootKeyInactive, ModifyIndex: 20},
		{KeyID: "b", State: model.RootKeyActive, CreateTime: int64(50 * time.Hour), PublishTime: int64(100 * time.Hour), ModifyIndex: 20},
	}
	for what, c := range map[string]struct {
		id     *model.WorkloadIdentity
		placed uint64
		status string
		at     time.Duration
		keeps  bool
	}{
		"a living task with its token":               {endless, 15, model.AllocClientStatusRunning, 10_000 * time.Hour, true},
		"one that was placed as the key was retired": {endless, 20, model.AllocClientStatusPending, 10_000 * time.Hour, true},
		"one that was placed later":                  {endless, 21, model.AllocClientStatusRunning, 101 * time.Hour, false},
		"one that has ended":                         {endless, 15, model.AllocClientStatusFailed, 101 * time.Hour, false},
		"one that was not given its token":           {hidden, 15, model.AllocClientStatusRunning, 101 * time.Hour, false},
		"a token that may live":                      {short, 15, model.AllocClientStatusRunning, 110 * time.Hour, true},
		"a token that was renewed since, or is over": {short, 15, model.AllocClientStatusRunning, 111 * time.Hour, false},
	} {
		in := ring{roots, []*model.Allocation{{TaskGroup: "g", Job: group(c.id), CreateIndex: c.placed, ClientStatus: c.status}}}
		if got := keys.Signed(in, at(c.at))(roots[0]); got != c.keeps {
			t.Errorf("%s: %v", what, got)
		}
		limits := keys.Limits{Rotation: 20_000 * time.Hour, Removal: time.Hour}
		if d := limits.Due(in, at(c.at)); (len(d.Remove) == 0) != c.keeps {
			t.Errorf("%s: %+v", what, d)
		}
	}
}
