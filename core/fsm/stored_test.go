// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

var update = flag.Bool("update", false, "append what is new to testdata/commands.txt and testdata/fields.txt")

// golden returns the lines of a file after it was given what is new.
func golden(t *testing.T, name string, lines []string) []string {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestEveryCommandHasItsLevelForEver guards mixed clusters: a server is sent a command only
// if it reads the command's level.
func TestEveryCommandHasItsLevelForEver(t *testing.T) {
	var lines []string
	for _, c := range everyCommand() {
		level := fsm.LevelOf(c)
		if level < 1 || level > fsm.Level {
			t.Errorf("%T has level %d, and the newest is %d: raise fsm.Level, once per release", c, level, fsm.Level)
		}
		lines = append(lines, fmt.Sprintf("%d %T level %d", fsm.Kind(c), c, level))
	}
	known := golden(t, "commands.txt", lines)
	for _, l := range known {
		if !slices.Contains(lines, l) {
			t.Errorf("testdata/commands.txt says %q, which is no longer so: entries of this command are in logs", l)
		}
	}
	for _, l := range lines {
		if !slices.Contains(known, l) {
			t.Errorf("the command %q is not in testdata/commands.txt: give it the level fsm.Level, one higher than that of the previous release, and run `go test ./core/fsm -update`", l)
		}
	}
}

// storedFields returns the fields of a type and of all types in it, by the name of their
// type.
func storedFields(rt reflect.Type, into map[string][]string) {
	switch rt.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		storedFields(rt.Elem(), into)
	case reflect.Struct:
		if into[rt.String()] != nil || !strings.Contains(rt.PkgPath(), "drover") {
			return
		}
		into[rt.String()] = []string{}
		for i := range rt.NumField() {
			if f := rt.Field(i); f.IsExported() {
				into[rt.String()] = append(into[rt.String()], f.Name)
				storedFields(f.Type, into)
			}
		}
	}
}

// TestStoredFieldsAreOnlyAppended guards the log and snapshots on disk: structs are stored
// as arrays of their fields, so a field may only be added at the end of its type, and none
// may be removed or moved. An older server ignores the fields that it does not know. So
// each new field has the level from which servers know it, NAME@LEVEL, or NAME@1 if it
// does no harm that older servers ignore it.
func TestStoredFieldsAreOnlyAppended(t *testing.T) {
	now := map[string][]string{}
	for _, row := range []any{
		model.Job{}, model.JobSubmission{}, model.Allocation{}, model.Evaluation{}, model.Deployment{}, model.Node{}, model.Namespace{},
		model.NodePool{}, model.SchedulerConfiguration{}, model.PeriodicLaunch{}, model.Cluster{}, model.Variable{}, model.RootKey{},
	} {
		storedFields(reflect.TypeOf(row), now)
	}
	for _, c := range everyCommand() {
		storedFields(reflect.TypeOf(fsm.PackedForm(c)), now)
	}
	known := map[string][]string{}
	for _, line := range golden(t, "fields.txt", withLevels(t, now)) {
		name, fields, _ := strings.Cut(line, ":")
		known[name] = strings.Fields(fields)
	}
	levels := map[string]int{} // by type: the highest level of its own fields
	for name, fields := range known {
		for i, f := range fields {
			f, level, _ := strings.Cut(f, "@")
			if i >= len(now[name]) || now[name][i] != f {
				t.Fatalf("stored fields of %s were\n%s\nand are\n%s\nadd fields at the end of the type; before the first release, `go test ./core/fsm -update` accepts any change", name, fields, now[name])
			}
			if n, err := strconv.Atoi(level); level != "" && (err != nil || n < 1 || n > fsm.Level) {
				t.Errorf("%s.%s is new: write in testdata/fields.txt %s@%d if servers that ignore it would do something else, %s@1 if not", name, f, f, fsm.Level, f)
			} else {
				levels[name] = max(levels[name], n)
			}
		}
	}
	for name, fields := range now {
		if len(fields) != len(known[name]) {
			t.Errorf("%s has the fields %s, and testdata/fields.txt knows %s: run `go test ./core/fsm -update` and give each new one a level", name, fields, known[name])
		}
	}
	for _, c := range everyCommand() {
		inside := map[string][]string{}
		storedFields(reflect.TypeOf(fsm.PackedForm(c)), inside)
		for name := range inside {
			if levels[name] > fsm.LevelOf(c) && !fsm.Needing(c) {
				t.Errorf("%T has level %d and contains %s, of which a field has level %d: give the command a method needs, which returns %d if that field is set", c, fsm.LevelOf(c), name, levels[name], levels[name])
			}
		}
	}
}

// withLevels returns the lines of testdata/fields.txt with the fields that are new, whose
// level is not known yet.
func withLevels(t *testing.T, now map[string][]string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "fields.txt"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{} // TYPE.FIELD -> with its level
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, fields, _ := strings.Cut(strings.TrimSpace(line), ":")
		seen[name] = true
		for _, f := range strings.Fields(fields) {
			bare, _, _ := strings.Cut(f, "@")
			written[name+"."+bare] = f
		}
	}
	for name, fields := range now {
		line := name + ":"
		for _, f := range fields {
			w := written[name+"."+f]
			if w == "" {
				w = f
				if seen[name] {
					w += "@?"
				}
			}
			line += " " + w
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}
