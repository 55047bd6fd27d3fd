// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"errors"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAFreezerOfEitherVersionStopsAndContinues(t *testing.T) {
	for what, c := range map[string]struct {
		files        map[string]string
		frozen       bool
		after, later map[string]string // after Freeze, after Thaw
	}{
		"version 1": {map[string]string{"freezer.state": "THAWED\n"}, false, map[string]string{"freezer.state": "FROZEN"}, map[string]string{"freezer.state": "THAWED"}},
		"version 2": {map[string]string{"cgroup.freeze": "0", "cgroup.events": "populated 1\nfrozen 1\n"}, true, map[string]string{"cgroup.freeze": "1"}, map[string]string{"cgroup.freeze": "0"}},
	} {
		dir := files(t, c.files)
		g := &driver.Cgroup{Dirs: map[string]string{"freezer": dir}}
		if got := g.Frozen(); got != c.frozen {
			t.Errorf("%s: frozen %t at first", what, got)
		}
		if err := g.Freeze(t.Context()); err != nil || !g.Frozen() {
			t.Errorf("%s: Freeze: %v", what, err)
		}
		check(t, dir, c.after)
		if err := g.Thaw(); err != nil {
			t.Errorf("%s: Thaw: %v", what, err)
		}
		check(t, dir, c.later)
	}
}

func TestProcessesThatDoNotAllStopRunOn(t *testing.T) {
	dir := files(t, map[string]string{"cgroup.freeze": "0", "cgroup.events": "populated 1\nfrozen 0\n"})
	g := &driver.Cgroup{Version: 2, Dirs: map[string]string{"freezer": dir}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Freeze(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Freeze: %v", err)
	}
	check(t, dir, map[string]string{"cgroup.freeze": "0"})
}

func TestWithoutAFreezerNothingIsPausedAndTheReasonIsSaid(t *testing.T) {
	var none *driver.Cgroup
	for what, g := range map[string]*driver.Cgroup{"no cgroup": none, "no freezer": {Dirs: map[string]string{"freezer": t.TempDir()}}} {
		if err := g.Freeze(t.Context()); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("%s: Freeze: %v", what, err)
		}
		if err := g.Thaw(); err != nil || g.Frozen() {
			t.Errorf("%s: Thaw: %v, frozen %t", what, err, g.Frozen())
		}
	}
}
