// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/drover-project/drover"

// repoRoot is the directory of go.mod, relative to this package.
const repoRoot = "../.."

type pkg struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string // the first sentence of the package's documentation
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rel returns the package's path inside the module.
func (p pkg) rel() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

var listPackages = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports,TestImports,XTestImports", "./...", "./sdk/...")
	cmd.Dir = repoRoot
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

type layer struct {
	pattern string
	pure    bool
	ours    []string
	modules []string
	used    bool
}

func readLayers(t *testing.T) []*layer {
	t.Helper()
	f, err := os.Open("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*layer
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cols := strings.Split(line, "|")
		if len(cols) < 2 {
			t.Fatalf("layers.txt: %q needs two or three columns", line)
		}
		l := &layer{pattern: strings.TrimSpace(cols[0]), ours: strings.Fields(cols[1])}
		l.pattern, l.pure = strings.CutPrefix(l.pattern, "! ")
		if len(cols) > 2 {
			l.modules = strings.Fields(cols[2])
		}
		out = append(out, l)
	}
	return out
}

// matches reports whether path matches the pattern, where "x/..." matches x and
// everything below it.
func matches(pattern, path string) bool {
	if pattern == "*" {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return pattern == path
}

// layerOf returns the most specific row for a package.
func layerOf(layers []*layer, path string) *layer {
	var best *layer
	for _, l := range layers {
		if matches(l.pattern, path) && (best == nil || len(l.pattern) > len(best.pattern)) {
			best = l
		}
	}
	return best
}

func TestEveryPackageImportsOnlyWhatItsRowAllows(t *testing.T) {
	layers := readLayers(t)
	owners := map[string]bool{}
	for _, l := range layers {
		for _, m := range l.modules {
			owners[m] = true
		}
	}
	for _, p := range packages(t) {
		l := layerOf(layers, p.rel())
		if l == nil {
			t.Errorf("%s is in no row of layers.txt: add a row that says what it owns", p.rel())
			continue
		}
		l.used = true
		for _, imp := range p.Imports {
			checkImport(t, p, l, imp, owners)
		}
	}
	for _, l := range layers {
		if !l.used {
			t.Errorf("layers.txt: row %q has no package: remove it", l.pattern)
		}
	}
}

func checkImport(t *testing.T, p pkg, l *layer, imp string, owners map[string]bool) {
	t.Helper()
	if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
		if ours == "sdk/errdefs" || matches(strings.TrimSuffix(l.pattern, "/...")+"/...", ours) {
			return
		}
		if !slices.ContainsFunc(l.ours, func(pat string) bool { return matches(pat, ours) }) {
			t.Errorf("%s imports %s: its row in layers.txt does not allow that", p.rel(), ours)
		}
		return
	}
	for m := range owners {
		if imp != m && !strings.HasPrefix(imp, m+"/") {
			continue
		}
		if !slices.Contains(l.modules, m) && !slices.Contains(l.modules, "*") {
			t.Errorf("%s imports %s: only the rows that own %s may", p.rel(), imp, m)
		}
	}
}

func TestServerAndNodeSideNeverImportEachOther(t *testing.T) {
	node := func(s string) bool { return matches("core/agent/...", s) || matches("core/pluginhost/...", s) }
	server := func(s string) bool {
		for _, pat := range []string{"core/server/...", "core/state/...", "core/fsm/...", "core/consensus/...", "core/schedule/...",
			"core/queue/...", "core/plan/...", "core/worker/...", "core/control/...", "core/dispatch/...", "core/endpoint/..."} {
			if matches(pat, s) {
				return true
			}
		}
		return false
	}
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, module+"/")
			if ok && (node(p.rel()) && server(ours) || server(p.rel()) && node(ours)) {
				t.Errorf("%s imports %s: server side and node side meet only in model, rpc and sdk", p.rel(), ours)
			}
		}
	}
}

func TestCoreNeverImportsPlugins(t *testing.T) {
	for _, p := range packages(t) {
		if !matches("core/...", p.rel()) && !matches("cmd/drover/...", p.rel()) && !matches("sdk/...", p.rel()) {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, module+"/plugins/") {
				t.Errorf("%s imports %s: core, sdk and the daemon never import a plugin", p.rel(), imp)
			}
		}
	}
}

// ownReplace is the one replacement: the SDK of this checkout. Releases of the daemon are
// archives (make dist); the SDK is released under tags sdk/vX.Y.Z, and its go.mod has none.
const ownReplace = "replace " + module + "/sdk => ./sdk"

func TestGoModReplacesNothingOfOthers(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repoRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") && line != ownReplace {
			t.Errorf("go.mod: %q: replacements break `go install` for others", line)
		}
	}
}
