// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package lifecycles checks for tests that every change of a status in a server's state
// is one of core/model's Lifecycles.
package lifecycles

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// Check records the changes of a state from now on, and judges them when the test ends.
// A test that makes more changes than a feed holds is not judged.
func Check(t testing.TB, s *state.Store) {
	feed := s.Subscribe(state.TableJobs, state.TableEvals, state.TableAllocs, state.TableDeployments, state.TableNodes)
	t.Cleanup(func() {
		defer feed.Close()
		for {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond) // all changes have been made
			batch, err := feed.Next(ctx)
			cancel()
			if err != nil || batch.Resync {
				return
			}
			for _, c := range batch.Changes {
				judge(t, c)
			}
		}
	})
}

func judge(t testing.TB, c state.Change) {
	kind, to := statusOf(c.New)
	_, from := statusOf(c.Old)
	if to == "" { // it was deleted
		return
	}
	for _, l := range model.Lifecycles() {
		if l.Kind == kind && !l.Allows(from, to) {
			t.Errorf("entry %d: a status of kind %s goes from %q to %q, which its lifecycle does not have", c.Index, kind, from, to)
		}
	}
}

// statusOf returns the kind and the status of a row, "" for none.
func statusOf(row any) (kind, status string) {
	if v := reflect.ValueOf(row); !v.IsValid() || v.IsNil() {
		return "", ""
	}
	switch row := row.(type) {
	case *model.Job:
		return "job", row.Status
	case *model.Evaluation:
		return "evaluation", row.Status
	case *model.Allocation:
		return "allocation", row.ClientStatus
	case *model.Deployment:
		return "deployment", row.Status
	case *model.Node:
		return "node", row.Status
	}
	return "", ""
}
