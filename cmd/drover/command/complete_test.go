// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/command"
)

func TestCompletionIsAddedOnceAndRemovedWithoutATrace(t *testing.T) {
	home := t.TempDir()
	in := func(stdio *command.IO) { stdio.Env["HOME"] = home }
	f := newFake(t, nil)
	if r := f.at(t, in, "completion", "-install"); r.code != 1 || !strings.Contains(r.err, "has no .bashrc") {
		t.Errorf("no shell: exit code %d: %s", r.code, r.err)
	}
	files := map[string]string{".bashrc": "alias a=b\nno newline at the end", ".zshrc": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, ".config", "fish"), 0o755); err != nil {
		t.Fatal(err)
	}
	fish := filepath.Join(home, ".config", "fish", "completions", "drover.fish")
	for range 2 {
		if r := f.at(t, in, "completion", "-install"); r.code != 0 {
			t.Fatalf("exit code %d: %s", r.code, r.err)
		}
	}
	for name := range files {
		b, err := os.ReadFile(filepath.Join(home, name))
		if err != nil || strings.Count(string(b), "complete -o default -C '") != 1 {
			t.Errorf("%s holds\n%s\n%v", name, b, err)
		}
	}
	if b, err := os.ReadFile(fish); err != nil || !strings.Contains(string(b), "complete -c drover") {
		t.Errorf("fish reads %q, %v", b, err)
	}
	if r := f.at(t, in, "completion", "-uninstall"); r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.err)
	}
	for name, text := range files {
		b, err := os.ReadFile(filepath.Join(home, name))
		if err != nil || strings.TrimSpace(string(b)) != strings.TrimSpace(text) {
			t.Errorf("%s holds %q, want %q; %v", name, b, text, err)
		}
	}
	if _, err := os.Stat(fish); err == nil {
		t.Error("fish still completes")
	}
}
