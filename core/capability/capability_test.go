// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package capability_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheOldestServerAndOneThatAnnouncesNothingLimitTheLevel(t *testing.T) {
	at := func(levels ...int) (out []capability.Server) {
		for _, l := range levels {
			out = append(out, capability.Server{ID: "s", Level: l})
		}
		return out
	}
	for want, servers := range map[int][]capability.Server{1: at(3, 0, 3), 2: at(2, 3), 4: at(4)} {
		if got := capability.Highest(servers); got != want {
			t.Errorf("%v: %d, want %d", servers, got, want)
		}
	}
	if got := capability.Highest(nil); got != 1 {
		t.Errorf("without servers: %d", got)
	}
	if err := capability.Refuse(3, 2, at(3, 3)); !errdefs.IsUnavailable(err) {
		t.Errorf("all are new enough: %v", err)
	}
	if err := capability.Refuse(3, 2, at(3, 0)); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "s, which announces no level") {
		t.Errorf("one is silent: %v", err)
	}
}
