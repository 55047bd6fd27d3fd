// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// pushFresh returns what a node receives if a server pushes it new allocs of jobs.
func pushFresh(t *testing.T, f *fake, pushed chan *rpc.Assignments, jobs ...*model.Job) *rpc.Assignments {
	t.Helper()
	x := &rpc.Assignments{Index: 4}
	for i, j := range jobs {
		id := string(rune('a' + i))
		x.Set = append(x.Set, rpc.Assignment{AllocID: id, AllocModifyIndex: 4, DesiredStatus: "run"})
		x.Fresh = append(x.Fresh, &model.Allocation{ID: id, JobID: j.ID, Job: j, CreateIndex: 4, AllocModifyIndex: 4})
	}
	f.pushes <- x
	return <-pushed
}

func TestNewAllocsComeWithTheAssignmentsAndTheirJobOnce(t *testing.T) {
	f, c, _ := connect(t)
	_, pushed, _ := attach(t, f, c, &node{})
	web := &model.Job{ID: "web", TaskGroups: []*model.TaskGroup{{Name: "g"}}}
	for range 2 { // the second time the job's encoding is known
		got := pushFresh(t, f, pushed, web, web, &model.Job{ID: "db"})
		if len(got.Set) != 3 || len(got.Fresh) != 3 || got.Fresh[1].ID != "b" || got.Fresh[0].Job != got.Fresh[1].Job ||
			!reflect.DeepEqual(got.Fresh[0].Job, web) || got.Fresh[2].Job.ID != "db" {
			t.Fatalf("pushed %+v", got)
		}
	}
	if next := (&model.Job{ID: "web", Version: 1}); pushFresh(t, f, pushed, next).Fresh[0].Job.Version != 1 {
		t.Error("a new version of the job was sent as the one before")
	}
}

func TestAllocsOfLargeJobsAreLeftForTheNodeToFetch(t *testing.T) {
	f, c, _ := connect(t)
	_, pushed, _ := attach(t, f, c, &node{})
	large := &model.Job{ID: "large", Meta: map[string]string{"k": strings.Repeat("x", 2<<20)}}
	if got := pushFresh(t, f, pushed, large); len(got.Set) != 1 || got.Fresh != nil {
		t.Fatalf("%d assignments and %d allocs", len(got.Set), len(got.Fresh))
	}
}
