// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TestARefusalSpeaksOfMountsUntilTheDaemonHasSeenOne: users would look for a problem of mounts
// where a limit or an option was refused.
func TestARefusalSpeaksOfMountsUntilTheDaemonHasSeenOne(t *testing.T) {
	s := newStages(t.TempDir())
	refused := errdefs.InvalidArgumentf("create container t: Requested CPUs are not available")
	for _, seen := range []bool{false, true} {
		s.seen.Store(seen)
		err := s.explain(refused)
		if !errdefs.IsInvalidArgument(err) || !errors.Is(err, refused) || strings.Contains(err.Error(), "--make-rshared") == seen {
			t.Errorf("seen %v: %v", seen, err)
		}
	}
}
