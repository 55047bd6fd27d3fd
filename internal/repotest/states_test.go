// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestTheStateDiagramsAreMadeOfTheModelsTables(t *testing.T) {
	file := filepath.Join(repoRoot, "docs/design/states.md")
	raw, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := stateDiagrams()
	if want == string(raw) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what core/model's Lifecycles say: run make docs", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func stateDiagrams() string {
	var b strings.Builder
	b.WriteString(`# The states of jobs, evaluations, allocations, deployments and nodes

` + "`make docs`" + ` writes this file from ` + "`core/model/lifecycle.go`" + `. Tests check every change of a server's state against
the same tables (` + "`internal/testkit/lifecycles`" + `). The states of a task are in [task-states.md](task-states.md).
`)
	for _, l := range model.Lifecycles() {
		fmt.Fprintf(&b, "\n## %s\n\n```mermaid\nstateDiagram-v2\n", strings.ToUpper(l.Kind[:1])+l.Kind[1:])
		for _, s := range l.Begin {
			fmt.Fprintf(&b, "    [*] --> %s\n", s)
		}
		for _, w := range l.Ways {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", w.From, w.To, w.Why)
		}
		for _, s := range l.End {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
		b.WriteString("```\n")
	}
	return b.String()
}

func TestEveryStatusOfALifecycleCanBeReached(t *testing.T) {
	for _, l := range model.Lifecycles() {
		reached := slices.Clone(l.Begin)
		for i := 0; i < len(reached); i++ {
			for _, w := range l.Ways {
				if w.From == reached[i] && !slices.Contains(reached, w.To) {
					reached = append(reached, w.To)
				}
			}
		}
		for _, w := range l.Ways {
			if !slices.Contains(reached, w.From) {
				t.Errorf("%s: nothing leads to %q", l.Kind, w.From)
			}
		}
		for _, s := range l.End {
			if !slices.Contains(reached, s) {
				t.Errorf("%s: nothing leads to %q", l.Kind, s)
			}
		}
	}
}
