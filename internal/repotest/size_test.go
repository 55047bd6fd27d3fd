// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits in lines. What is longer has more than one subject.
const (
	longestFile     = 500
	longestTest     = 1000 // a file of tests
	longestFunction = 80   // outside of tests
)

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		path := filepath.Join(repoRoot, name)
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			continue // it was removed, but that is not committed yet
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if generated(f) {
			continue
		}
		test, limit := strings.HasSuffix(name, "_test.go"), longestFile
		if test {
			limit = longestTest
		}
		lines := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1 }
		if n := fset.File(f.Pos()).LineCount() - 1; n > limit {
			t.Errorf("%s has %d lines, more than %d: split it by subject", name, n, limit)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !test && lines(fn) > longestFunction {
				t.Errorf("%s: %s has %d lines, more than %d", name, fn.Name.Name, lines(fn), longestFunction)
			}
		}
	}
}
