// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TestOnlyARefusalThatNamesAMountOfOursSpeaksOfMounts: users would look for a problem of mounts
// where a limit or an option was refused.
func TestOnlyARefusalThatNamesAMountOfOursSpeaksOfMounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounts")
	for said, want := range map[string]bool{
		"bind source path does not exist: " + filepath.Join(dir, "start-1", "0"): true,
		"Requested CPUs are not available - requested 77, available: 0-1":        false,
		"invalid mount config for type \"bind\": /srv/mounts does not exist":     false,
	} {
		err := (&stages{dir: dir}).explain(errdefs.InvalidArgumentf("create container t: %s", said))
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), said) || strings.Contains(err.Error(), "--make-rshared") != want {
			t.Errorf("%v", err)
		}
	}
	if err := (&stages{}).explain(errdefs.InvalidArgumentf("/x")); strings.Contains(err.Error(), "rshared") {
		t.Errorf("without mounts: %v", err)
	}
}
