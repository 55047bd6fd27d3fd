// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// playOn plays a script on without looking at what it tells.
func playOn(t *testing.T, lines ...string) *script {
	t.Helper()
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range lines {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestWhatIsLostOrUnknownDoesNotSayThatItsTasksAreRunning(t *testing.T) {
	s := playOn(t, "node n1", "job web lost_after=1m", "run web", "alloc all status=running")
	s.v.allocs["id0002"].ClientDescription = "Tasks are running"
	for _, step := range []struct{ line, status, says string }{
		{"node n1 status=disconnected", model.AllocClientStatusUnknown, reconcile.DescUnknown},
		{"wait 61s", model.AllocClientStatusLost, reconcile.DescLost},
	} {
		for _, line := range []string{step.line, "run web"} {
			if err := s.line(line); err != nil {
				t.Fatal(err)
			}
		}
		if a := s.v.allocs["id0002"]; a.ClientStatus != step.status || a.ClientDescription != step.says {
			t.Errorf("after %q it is %s: %s", step.line, a.ClientStatus, a.ClientDescription)
		}
	}
}
