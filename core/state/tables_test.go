// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A table that is not declared would be neither published nor saved.
func TestEveryTableIsDeclaredOnce(t *testing.T) {
	places := map[uintptr]string{}
	all := newTables()
	v := reflect.ValueOf(all).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && strings.Contains(f.Type().String(), "table[") {
			if f.IsNil() {
				t.Errorf("the field %s of tables has no declaration in declared", v.Type().Field(i).Name)
			}
			places[f.Pointer()] = v.Type().Field(i).Name
		}
	}
	if len(places) < 15 {
		t.Fatalf("found %d tables; the test looks in the wrong place, or two declarations share one", len(places))
	}
	seen := map[string]bool{}
	for _, k := range declared {
		name := k.head().name
		if name != "" && seen[name] {
			t.Errorf("two tables are called %q", name)
		}
		seen[name] = true
		saved := len(k.loads()) > 0
		if named := name != ""; named != saved && k.len(all) >= 0 {
			t.Errorf("table %q: named is %v and saved is %v; what is derived from other tables has no name and no record, any other has both", name, named, saved)
		}
	}
}

func TestEveryTableNameIsDeclared(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "store.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Table") {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	if len(names) != len(named) {
		t.Errorf("%d names and %d named tables", len(names), len(named))
	}
	for _, name := range names {
		if named[name] == nil {
			t.Errorf("no table is declared with the name %q", name)
		}
	}
}

// Names of indexes that are watched are what Key.By may be.
func TestIndexesThatAreWatchedHaveNamesOfKeys(t *testing.T) {
	by := []string{"", ByJob, ByNode, ByEval, ByDeployment}
	for _, k := range declared {
		v := reflect.ValueOf(k).Elem().FieldByName("secondaries")
		if !v.IsValid() {
			continue
		}
		for i := range v.Len() {
			name, watched := v.Index(i).FieldByName("name").String(), v.Index(i).FieldByName("watched").Bool()
			if watched && !slices.Contains(by, name) {
				t.Errorf("table %q: the index %q is watched, and no Key can name it", k.head().name, name)
			}
		}
	}
}
