// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metricSources are the files that name metrics.
var metricSources = []string{"cmd/drover/daemon/metrics.go", "core/endpoint/metrics.go", "core/telemetry/registry.go", "core/agent/stats/allocs.go", "core/agent/stats/disks.go", "core/agent/stats/metrics.go"}

var (
	// namedMetric matches a literal that is the name of a metric, or, with a dot at its end, the beginning of one.
	namedMetric = regexp.MustCompile(`"((?:nomad|drover)\.[A-Za-z0-9_.]+)"`)
	// listedMetric matches one in the document, of which the last word may be several words in braces.
	listedMetric = regexp.MustCompile("(?m)`((?:nomad|drover)\\.[A-Za-z0-9_.]+)(?:\\{([A-Za-z0-9_,]+)\\})?`")
)

func TestEveryMetricIsInTheDocumentAndEveryMetricOfTheDocumentExists(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(repoRoot, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range listedMetric.FindAllStringSubmatch(string(document), -1) {
		for _, word := range strings.Split(m[2], ",") {
			listed[m[1]+word] = true
		}
	}
	names, beginnings := map[string]bool{}, []string{}
	for _, file := range metricSources {
		source, err := os.ReadFile(filepath.Join(repoRoot, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedMetric.FindAllStringSubmatch(string(source), -1) {
			if strings.HasSuffix(m[1], ".") {
				beginnings = append(beginnings, m[1])
			} else {
				names[m[1]] = true
			}
		}
	}
	begins := func(name string) bool {
		for _, b := range beginnings {
			if strings.HasPrefix(name, b) {
				return true
			}
		}
		return false
	}
	if len(names) < 50 || len(listed) < 50 {
		t.Fatalf("%d metrics in the code, %d in the document", len(names), len(listed))
	}
	for name := range names {
		if !listed[name] {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
	for name := range listed {
		if !names[name] && !begins(name) {
			t.Errorf("docs/metrics.md lists %s, which nothing publishes", name)
		}
	}
}
