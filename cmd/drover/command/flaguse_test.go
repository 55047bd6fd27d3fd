// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/cli"

	"github.com/drover-project/drover/cmd/drover/command"
)

// declarers are the methods of flag.FlagSet that declare a flag. Methods whose name
// ends with Var take a pointer to the value as their first argument.
var declarers = []string{"Bool", "String", "Int", "Int64", "Uint", "Uint64", "Float64", "Duration", "Var",
	"BoolVar", "StringVar", "IntVar", "Int64Var", "UintVar", "Uint64Var", "Float64Var", "DurationVar"}

// refusing are files whose commands always fail, whatever their flags are.
var refusing = []string{"absent.go", "ui.go"}

// The compiler detects unused variables, but not a flag whose value is discarded,
// nor a field that is never read.
func TestTheValueOfEveryFlagIsRead(t *testing.T) {
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reads := map[string]int{}  // reads of struct fields, by name
	places := map[string]int{} // fields whose address a flag takes, by name
	where := map[string]token.Position{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				reads[n.Sel.Name]++
			case *ast.ExprStmt:
				if method, call := declares(n.X); call != nil && !strings.HasSuffix(method, "Var") && !slices.Contains(refusing, name) {
					t.Errorf("%s: the value of a flag is thrown away", fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				if method, call := declares(n); call != nil && strings.HasSuffix(method, "Var") {
					if place := fieldOf(call.Args[0]); place != "" {
						places[place]++
						where[place] = fset.Position(n.Pos())
					}
				}
			}
			return true
		})
	}
	if len(places) < 20 {
		t.Fatalf("found %d fields that flags are read into; the test looks in the wrong place", len(places))
	}
	handed := sourcesOf(t, filepath.Join("..", "scaffold"), filepath.Join("..", "..", "..", "core", "pluginhost", "plugincheck"), filepath.Join("..", "..", "..", "core", "api", "client"))
	for field, taken := range places {
		elsewhere := ast.IsExported(field) && strings.Contains(handed, "."+field)
		if reads[field] <= taken && !elsewhere {
			t.Errorf("%s: a flag is read into the field %s, which nobody reads", where[field], field)
		}
	}
}

// sourcesOf returns the source of the packages to which commands pass structs with
// flag values.
func sourcesOf(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			all.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// declares returns the method with which an expression declares a flag, and the
// call.
func declares(e ast.Expr) (string, *ast.CallExpr) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return "", nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	if on, ok := sel.X.(*ast.Ident); !ok || on.Name != "fs" || !slices.Contains(declarers, sel.Sel.Name) {
		return "", nil
	}
	return sel.Sel.Name, call
}

// fieldOf returns the field whose address an expression takes.
func fieldOf(e ast.Expr) string {
	if at, ok := e.(*ast.UnaryExpr); ok && at.Op == token.AND {
		if sel, ok := at.X.(*ast.SelectorExpr); ok {
			return sel.Sel.Name
		}
	}
	return ""
}

// surface returns the reference's commands with their flags.
func surface(t *testing.T) map[string][]string {
	t.Helper()
	root := cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "..", "shared", "compat"))
	b, err := os.ReadFile(filepath.Join(root, "surface", "cli.txt"))
	if err != nil {
		t.Skipf("no surface of the reference: %v; set DROVER_COMPAT", err)
	}
	out := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(b)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case !strings.HasPrefix(line, " "):
			name = text
			out[name] = nil
		case strings.HasPrefix(text, "-"):
			for _, f := range strings.Fields(text) {
				out[name] = append(out[name], strings.TrimLeft(f, "-"))
			}
		}
	}
	return out
}

func TestEveryFlagOfTheReferenceIsKnown(t *testing.T) {
	ours := map[string]map[string]bool{}
	for _, e := range command.Describe() {
		known := map[string]bool{"no-color": true, "force-color": true}
		for _, f := range e.Flags {
			known[f.Name] = true
		}
		if !e.Offline {
			for _, f := range command.GeneralFlags() {
				known[f.Name] = true
			}
		}
		for _, name := range append(e.Aliases, e.Name) {
			ours[name] = known
		}
	}
	for name, flags := range surface(t) {
		known, ok := ours[name]
		switch {
		case name == "agent": // tested in the daemon package
		case !ok && command.Missing(nil, strings.Fields(name)) == "":
			t.Errorf("%s: there is no such command, and nothing says so", name)
		case !ok && strings.HasSuffix(command.Missing(nil, strings.Fields(name)), "drover -help"):
			t.Errorf("%s: there is no such command and no word of what to do instead; see missingFamilies", name)
		case !ok:
		default:
			for _, f := range flags {
				if !known[f] {
					t.Errorf("%s: the reference's flag -%s is not known; act on it or refuse it with a reason", name, f)
				}
			}
		}
	}
}

func TestACommandThatIsNotThereIsExplained(t *testing.T) {
	all := command.All(command.IO{})
	for line, want := range map[string]string{
		"job run x":           "",
		"alloc pause a":       "", // the command fails anyway
		"job":                 "",
		"-version":            "",
		"acl token list":      `drover has no command "acl": access control is not implemented yet`,
		"volume create v.hcl": "",
		"tls ca create":       "",
		"jbo run x":           `drover has no command "jbo"; did you mean: drover job`,
		"nonsense":            `drover has no command "nonsense"; list all commands with: drover -help`,
	} {
		if got := command.Missing(all, strings.Fields(line)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	var errOut strings.Builder
	for line, want := range map[string]string{
		"job rnu x":          `drover has no command "job rnu"; did you mean: drover job run`,
		"operator rfat x":    `drover has no command "operator rfat"; did you mean: drover operator raft`,
		"job nonsense":       `drover has no command "job nonsense"; list all commands with: drover -help`,
		"job run -detch x":   "flag provided but not defined: -detch; did you mean -detach?",
		"node status -vebos": "flag provided but not defined: -vebos; did you mean -verbose?",
	} {
		errOut.Reset()
		program := &cli.CLI{Name: "drover", Args: strings.Fields(line), Commands: command.All(command.IO{Err: &errOut})}
		if code, err := program.Run(); code != 1 || err != nil || !strings.HasPrefix(errOut.String(), want) {
			t.Errorf("%s: got code %d, %v, %q; want %q", line, code, err, errOut.String(), want)
		}
	}
}
