// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
)

// field is a line of compat/surface/jobspec-fields.txt: a block, attribute or label.
type field struct {
	hcl, json, typ, kind string
	parent               *field
	children             []*field
}

var (
	fieldLine = regexp.MustCompile(`^( *)(\S+)  (\S+)  \((.*?)\) ?(\S*)$`)
	labelLine = regexp.MustCompile(`^( *)(\S+)  \((.*?)\) label$`) // a label that no attribute can give
)

// surfaceFields reads what a job file may hold; it skips where the records are absent.
func surfaceFields(t *testing.T) []*field {
	text, err := os.ReadFile(filepath.Join(compatDir(t), "surface", "jobspec-fields.txt"))
	if err != nil {
		t.Skip("no list of job file fields: ", err)
	}
	root := &field{}
	var all []*field
	path := []*field{root}
	for _, line := range strings.Split(string(text), "\n") {
		m := fieldLine.FindStringSubmatch(line)
		if l := labelLine.FindStringSubmatch(line); l != nil {
			m = []string{"", l[1][:len(l[1])-2], "", l[2], l[3], "label"}
		}
		if m == nil {
			continue
		}
		depth := len(m[1]) / 2
		f := &field{hcl: m[2], json: m[3], typ: m[4], kind: m[5], parent: path[depth]}
		f.parent.children = append(f.parent.children, f)
		path = append(path[:depth+1], f)
		all = append(all, f)
	}
	return all
}

func (f *field) label() *field {
	for _, c := range f.children {
		if c.kind == "label" {
			return c
		}
	}
	return nil
}

func (f *field) isBlock() bool { return f.kind == "block" }

// source is the smallest job file that sets the field.
func (f *field) source() string {
	var inner string
	switch {
	case f.isBlock() && strings.HasPrefix(f.typ, "map[string]") && len(f.children) == 0:
		inner = fmt.Sprintf("%s {\n  k = %s\n}", f.hcl, value(strings.TrimPrefix(f.typ, "map[string]")))
	case f.isBlock():
		inner = f.block("")
	case f.kind == "label":
	default:
		inner = fmt.Sprintf("%s = %s", f.hcl, value(f.typ))
	}
	for p := f.parent; p.parent != nil; p = p.parent {
		inner = p.block(inner)
	}
	return "job \"j\" {\n" + inner + "\n}\n"
}

func (f *field) block(inner string) string {
	label := ""
	if f.typ == "[]*ScalingPolicy" { // of a task, whose label the list leaves out
		label = `"cpu" `
	}
	if f.label() != nil || strings.HasPrefix(f.typ, "map[string]*") {
		label = `"x" `
	}
	return fmt.Sprintf("%s %s{\n%s\n}", f.hcl, label, inner)
}

func value(typ string) string {
	switch typ = strings.TrimPrefix(typ, "*"); typ {
	case "bool":
		return "true"
	case "time.Duration":
		return `"7s"`
	case "[]string":
		return `["x"]`
	case "[]uint16":
		return "[7]"
	case "map[string]string":
		return `{ k = "x" }`
	case "string", "interface {}", "CSIPluginType":
		return `"x"`
	}
	return "7"
}

// at follows the field's names into a parsed job.
func (f *field) at(job any) (any, bool) {
	if f.parent == nil {
		return job, true
	}
	up, ok := f.parent.at(job)
	if !ok {
		return nil, false
	}
	if list, isList := up.([]any); isList && len(list) > 0 {
		up = list[0]
	}
	m, isMap := up.(map[string]any)
	if !isMap {
		return nil, false
	}
	if strings.HasPrefix(f.parent.typ, "map[string]*") {
		if m, isMap = m["x"].(map[string]any); !isMap {
			return nil, false
		}
	}
	v, ok := m[f.json]
	list, isList := v.([]any)
	if v != nil && (!isList || len(list) > 0) {
		return v, ok
	}
	switch f.json {
	case "Identities":
		v, ok = m["Identity"] // a task's identity without a name is its default one
	case "DynamicPorts":
		v, ok = m["ReservedPorts"] // a port with a number is not dynamic
	}
	return v, ok && v != nil
}

func (f *field) String() string {
	if f.parent == nil || f.parent.parent == nil {
		return f.hcl
	}
	return f.parent.String() + "." + f.hcl
}

func TestEveryFieldOfAJobFileParses(t *testing.T) {
	fields := surfaceFields(t)
	if len(fields) < 500 {
		t.Fatalf("the list has %d fields only", len(fields))
	}
	for _, f := range fields {
		src := f.source()
		d, err := jobspec.ParseHCL([]byte(src), jobspec.Options{Filename: "f.hcl"})
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, src)
			continue
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.at(decodeAny(t, text)); !ok {
			t.Errorf("%s is not in what was parsed:\n%s%s", f, src, text)
		}
	}
}
