// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachLineOfThePageAboutSecurityHasItsTest checks that what docs/plugins/security.md
// says a malicious plugin cannot do names a test that there is.
func TestEachLineOfThePageAboutSecurityHasItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "plugins", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "## What a malicious plugin cannot do")
	table, _, _ = strings.Cut(table, "\n## ")
	if !ok {
		t.Fatal("the page has no section of what a malicious plugin cannot do")
	}
	var files []string
	for _, dir := range []string{"", "confine/"} {
		found, err := filepath.Glob("../../core/pluginhost/" + dir + "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var tests []byte
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, body...)
	}
	name := regexp.MustCompile(`^Test[A-Za-z0-9]+$`)
	lines := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.TrimSpace(cells[2]) == "test" {
			continue
		}
		lines++
		test := strings.TrimSpace(cells[2])
		if !name.MatchString(test) || !bytes.Contains(tests, []byte("func "+test+"(")) {
			t.Errorf("no test of core/pluginhost is called %q, which is to show that it cannot: %s", test, strings.TrimSpace(cells[1]))
		}
	}
	if lines == 0 {
		t.Error("the table has no lines")
	}
}
