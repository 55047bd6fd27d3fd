// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// stop matches a stop of the tour: a file, and optionally a declaration in it.
var stop = regexp.MustCompile("`([a-z0-9/._-]+\\.go)`(?: `([A-Za-z]+)`)?")

func TestEveryStopOfTheTourExists(t *testing.T) {
	tour, err := os.ReadFile(filepath.Join(repoRoot, "docs/design/tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	stops := stop.FindAllStringSubmatch(string(tour), -1)
	if len(stops) < 20 {
		t.Errorf("the tour has %d stops", len(stops))
	}
	for _, s := range stops {
		body, err := os.ReadFile(filepath.Join(repoRoot, s[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + s[2] + `\b`)
		if s[2] != "" && !declared.Match(body) {
			t.Errorf("%s declares no %s", s[1], s[2])
		}
	}
}
