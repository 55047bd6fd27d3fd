// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachGuideToAKindOfPluginSaysWhereItsLogGoes: a guide is the page that generates a plugin
// of its kind in the first step.
func TestEachGuideToAKindOfPluginSaysWhereItsLogGoes(t *testing.T) {
	const templates, guides = "../../cmd/drover/scaffold/templates", "../../docs/plugins"
	pages, err := filepath.Glob(filepath.Join(guides, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d guides, %v", len(pages), err)
	}
	for _, kind := range []string{"device", "driver", "network", "registry", "stats", "volume"} {
		if _, err := os.Stat(filepath.Join(templates, kind)); err != nil {
			t.Errorf("kind %s: %v", kind, err)
		}
		found := false
		for _, page := range pages {
			body, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(body), "1. `drover plugin new -kind "+kind+" ") {
				continue
			}
			found = true
			if !strings.Contains(string(body), "\n**Logging.** `plugin.Logger` ") {
				t.Errorf("%s has no paragraph on logging; copy it from another guide", page)
			}
		}
		if !found {
			t.Errorf("no guide in %s begins with drover plugin new -kind %s", guides, kind)
		}
	}
}
