// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forbiddenNames are package names that say nothing about what a package owns.
var forbiddenNames = []string{"util", "utils", "helper", "helpers", "common", "structs", "shared", "base", "misc", "manager", "hooks"}

func parse(t *testing.T, p pkg) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		files[p.rel()+"/"+name] = f
	}
	return files
}

func generated(f *ast.File) bool { return ast.IsGenerated(f) }

func TestEveryPackageSaysWhatItOwnsInOneFile(t *testing.T) {
	for _, p := range packages(t) {
		var docs []string
		hand := false
		for name, f := range parse(t, p) {
			hand = hand || !generated(f)
			if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" && !generated(f) {
				docs = append(docs, name)
				want := "Package " + p.Name + " "
				if p.Name == "main" {
					want = "Command "
				}
				if !strings.HasPrefix(f.Doc.Text(), want) {
					t.Errorf("%s: the package doc must start with %q", name, want)
				}
			}
		}
		if hand && len(p.GoFiles) > 0 && len(docs) != 1 {
			t.Errorf("%s: %d files carry a package doc, want exactly one: %v", p.rel(), len(docs), docs)
		}
		if slices.Contains(forbiddenNames, p.Name) {
			t.Errorf("%s: a package called %s says nothing about what it owns", p.rel(), p.Name)
		}
	}
}

func TestNothingRegistersItselfInInit(t *testing.T) {
	for _, p := range packages(t) {
		for name, f := range parse(t, p) {
			if generated(f) {
				continue
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: func init: construct and pass things explicitly instead", name)
				}
			}
		}
	}
}

func TestEveryFileCarriesTheLicence(t *testing.T) {
	for _, p := range packages(t) {
		for name, f := range parse(t, p) {
			if generated(f) {
				continue
			}
			if len(f.Comments) == 0 || !strings.Contains(f.Comments[0].List[0].Text+lastLine(f.Comments[0]), "SPDX-License-Identifier: MPL-2.0") {
				t.Errorf("%s: the two SPDX lines are missing at the top", name)
			}
		}
	}
}

func lastLine(c *ast.CommentGroup) string { return c.List[len(c.List)-1].Text }

// impure maps each import that is forbidden in pure packages to the reason.
var impure = map[string]string{
	"os": "I/O", "os/exec": "I/O", "net": "I/O", "net/http": "I/O", "log": "I/O", "log/slog": "I/O", "io/ioutil": "I/O", "syscall": "I/O",
	"math/rand": "randomness", "math/rand/v2": "randomness", "crypto/rand": "randomness", "github.com/google/uuid": "randomness",
}

// impureTime are the functions of package time that read the clock or wait.
var impureTime = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}

func TestPurePackagesHaveNoClockRandomnessIOOrGoroutine(t *testing.T) {
	layers := readLayers(t)
	for _, p := range packages(t) {
		l := layerOf(layers, p.rel())
		if l == nil || !l.pure {
			continue
		}
		for _, imp := range p.Imports {
			if why, bad := impure[imp]; bad {
				t.Errorf("%s imports %s (%s): pure packages get such values as arguments", p.rel(), imp, why)
			}
		}
		for name, f := range parse(t, p) {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: go statement in a pure package", name)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(impureTime, n.Sel.Name) {
						t.Errorf("%s: time.%s in a pure package: take the time as an argument", name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestErrorsAreNeverMatchedByText(t *testing.T) {
	for _, p := range packages(t) {
		for name, f := range parse(t, p) {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isCall(call, "strings", "Contains", "HasPrefix", "HasSuffix", "EqualFold") {
					return true
				}
				for _, arg := range call.Args {
					if c, ok := arg.(*ast.CallExpr); ok && isMethod(c, "Error") {
						t.Errorf("%s: an error is matched by its text: use errdefs classes", name)
					}
				}
				return true
			})
		}
	}
}

func isCall(c *ast.CallExpr, pkg string, names ...string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name)
}

func isMethod(c *ast.CallExpr, name string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name && len(c.Args) == 0
}
