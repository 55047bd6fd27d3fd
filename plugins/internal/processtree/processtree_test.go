// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package processtree_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/internal/processtree"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestATreeOfThisMachineIsMeasured(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Skipf("this machine has no sleep: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := processtree.New()
	got, err := s.Measure(t.Context(), []int{os.Getpid(), 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	me := got[os.Getpid()]
	if len(got) != 1 || !slices.Contains(me.PIDs, cmd.Process.Pid) || me.RSS < 1<<20 || me.User+me.System <= 0 {
		t.Errorf("measured %+v, with the child %d", got, cmd.Process.Pid)
	}
	if s.Gone(os.Getpid()) || !s.Gone(1<<30) {
		t.Error("who is gone is not right")
	}
}

func TestTheTimeOfEndedDescendantsStillCounts(t *testing.T) {
	type fake struct {
		pid, parent int
		started     int64
		user        time.Duration
		err         error
	}
	var now []fake
	s := processtree.NewWith(func(context.Context) (out []processtree.Process, err error) {
		for _, f := range now {
			out = append(out, processtree.Process{PID: f.pid, Parent: f.parent, Usage: func(context.Context) (processtree.Times, error) {
				return processtree.Times{Started: f.started, User: f.user, RSS: 10}, f.err
			}})
		}
		return out, nil
	})
	for _, step := range []struct {
		what string
		now  []fake
		user time.Duration
		pids []int
	}{
		{"a child", []fake{{1, 1, 1, 9, nil}, {5, 1, 1, 10, nil}, {6, 5, 1, 3, nil}}, 13, []int{5, 6}},
		{"which has ended", []fake{{1, 1, 1, 9, nil}, {5, 1, 1, 11, nil}}, 14, []int{5}},
		{"its PID is another's", []fake{{5, 1, 1, 11, nil}, {6, 5, 2, 1, nil}}, 15, []int{5, 6}},
		{"and again", []fake{{5, 1, 1, 11, nil}, {6, 5, 3, 2, nil}}, 17, []int{5, 6}},
		{"it cannot be read", []fake{{5, 1, 1, 11, nil}, {6, 5, 3, 0, errdefs.NotFoundf("gone")}}, 17, []int{5, 6}},
		{"a cycle", []fake{{5, 6, 1, 12, nil}, {6, 5, 3, 2, nil}}, 18, []int{5, 6}},
	} {
		now = step.now
		got, err := s.Measure(t.Context(), []int{5})
		if err != nil {
			t.Fatal(err)
		}
		if u := got[5]; u.User != step.user || !slices.Equal(u.PIDs, step.pids) || u.RSS == 0 {
			t.Errorf("%s: %+v, want a time of %d of %v", step.what, u, step.user, step.pids)
		}
	}
	now = nil
	if got, err := s.Measure(t.Context(), []int{5}); err != nil || len(got) != 0 || !s.Gone(5) {
		t.Errorf("after the end: %+v, %v", got, err)
	}
}
