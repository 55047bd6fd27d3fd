// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// reader is a function that reads a field of a struct.
type reader struct {
	pkg  string // path inside the module, such as core/agent/alloc
	file string // its base name
	fun  string // name of the function or method; "" at package level
}

// fieldReaders returns the readers of each field of the structs of a package, by
// "Type.Field": every selector that is not the target of an assignment. It uses type
// information, so fields of other structs with the same name are not confused.
func fieldReaders(owner string) (map[string][]reader, error) {
	exports, dirs, err := exported()
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if file := exports[path]; file != "" {
			return os.Open(file)
		}
		return nil, fmt.Errorf("no export data of %s", path)
	})
	imported, err := imp.Import(module + "/" + owner)
	if err != nil {
		return nil, err
	}
	out := map[string][]reader{}
	fields := fieldsOf(imported)
	for _, p := range dirs {
		files, err := parseFiles(fset, p)
		if err != nil {
			return nil, err
		}
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		conf := types.Config{Importer: imp, Sizes: types.SizesFor("gc", "amd64")}
		checked, err := conf.Check(p.ImportPath, fset, files, info)
		if err != nil {
			return nil, fmt.Errorf("check the types of %s: %w", p.ImportPath, err)
		}
		known := fields
		if p.rel() == owner {
			known = fieldsOf(checked)
		}
		for _, f := range files {
			readsOf(f, filepath.Base(fset.Position(f.Pos()).Filename), p.rel(), info, known, out)
		}
	}
	return out, nil
}

// readsOf adds the reads of one file to out.
func readsOf(f *ast.File, name, pkg string, info *types.Info, known map[types.Object]string, out map[string][]reader) {
	for _, d := range f.Decls {
		fun := ""
		if fd, ok := d.(*ast.FuncDecl); ok {
			fun = fd.Name.Name
		}
		written := map[ast.Expr]bool{}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok == token.ASSIGN {
					for _, l := range n.Lhs {
						written[l] = true
					}
				}
			case *ast.SelectorExpr:
				sel := info.Selections[n]
				if sel == nil || sel.Kind() != types.FieldVal || written[n] {
					return true
				}
				if field := known[sel.Obj()]; field != "" {
					out[field] = append(out[field], reader{pkg, name, fun})
				}
			}
			return true
		})
	}
}

// fieldsOf returns the names of the fields of a package's exported structs.
func fieldsOf(p *types.Package) map[types.Object]string {
	out := map[types.Object]string{}
	for _, name := range p.Scope().Names() {
		if s, ok := p.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
			for i := range s.NumFields() {
				out[s.Field(i)] = name + "." + s.Field(i).Name()
			}
		}
	}
	return out
}

// exported returns the export data of all dependencies of the program, and the
// packages of this module.
func exported() (map[string]string, []pkg, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Name,GoFiles,Export", "./cmd/drover")
	cmd.Dir = repoRoot
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list -export: %w", err)
	}
	exports := map[string]string{}
	var own []pkg
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p struct {
			pkg
			Export string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports, own, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module+"/") {
			own = append(own, p.pkg)
		}
	}
}

func parseFiles(fset *token.FileSet, p pkg) ([]*ast.File, error) {
	var out []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
