// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package scaffold_test

import (
	"bytes"
	"cmp"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/scaffold"
	"github.com/drover-project/drover/sdk/errdefs"
)

// inASandbox is the kind of a driver that isolates its tasks.
const inASandbox = "driver in a sandbox"

func options(kind string) scaffold.Options {
	if kind == inASandbox {
		return scaffold.Options{Kind: "driver", Isolated: true}
	}
	return scaffold.Options{Kind: kind}
}

func TestAnyNameThatIsAllowedMakesGoThatParses(t *testing.T) {
	for _, name := range []string{"x", "driver", "registry", "type", "my-gpu_2", "main"} {
		for _, kind := range append(scaffold.Kinds, inASandbox) {
			o := options(kind)
			o.Name, o.Dir = name, t.TempDir()
			dir, files, err := scaffold.Write(o)
			if err != nil {
				t.Errorf("%s of kind %s: %v", name, kind, err)
				continue
			}
			for _, f := range files {
				path := filepath.Join(dir, f)
				if strings.HasSuffix(f, ".go") {
					if _, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.AllErrors); err != nil {
						t.Errorf("%s of kind %s: %v", name, kind, err)
					}
				}
				if body, err := os.ReadFile(path); err != nil || strings.Contains(string(body), "[[") {
					t.Errorf("%s: %v; or a part of the template is left", f, err)
				}
			}
		}
	}
}

func TestAReleaseOrACheckoutIsWhatThePluginBuildsWith(t *testing.T) {
	read := func(o scaffold.Options) string {
		t.Helper()
		o.Name, o.Kind, o.Dir, o.Module = "p", "driver", t.TempDir(), "example.org/p"
		dir, _, err := scaffold.Write(o)
		if err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := read(scaffold.Options{Release: "v1.2.3"}); !strings.Contains(got, "require github.com/drover-project/drover/sdk v1.2.3") {
		t.Errorf("with a release: %s", got)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	got := read(scaffold.Options{Replace: "../../.."})
	for _, want := range []string{"module example.org/p\n", "replace github.com/drover-project/drover/sdk => " + filepath.Join(root, "sdk"), "google.golang.org/grpc v"} {
		if !strings.Contains(got, want) {
			t.Errorf("with a checkout, go.mod has no %q:\n%s", want, got)
		}
	}
}

// TestWhatIsGeneratedIsTidy asks the go command, which needs the modules that the SDK's
// dependencies are tested with. They are in the module cache or at a proxy.
func TestWhatIsGeneratedIsTidy(t *testing.T) {
	for _, kind := range append(scaffold.Kinds, inASandbox) {
		o := options(kind)
		o.Name, o.Dir, o.Module, o.Replace = "p", t.TempDir(), "example.org/p", "../../.."
		dir, _, err := scaffold.Write(o)
		if err != nil {
			t.Fatal(err)
		}
		var diff, said bytes.Buffer
		for _, proxy := range []string{"GOPROXY=off", "GOPROXY=" + cmp.Or(os.Getenv("GOPROXY"), "https://proxy.golang.org,direct")} {
			diff.Reset()
			said.Reset()
			tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy", "-diff")
			tidy.Dir, tidy.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", proxy)
			tidy.Stdout, tidy.Stderr = &diff, &said
			if err = tidy.Run(); err == nil || diff.Len() > 0 {
				break
			}
		}
		switch {
		case diff.Len() > 0:
			t.Errorf("the module of a %s is not tidy:\n%s", kind, diff.String())
		case err != nil:
			t.Skipf("needs modules that are neither in the cache nor at a proxy: %v\n%s", err, said.String())
		}
	}
}

func TestWhatCannotBeMadeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	full := t.TempDir()
	if err := os.MkdirAll(filepath.Join(full, "p", "something"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]scaffold.Options{
		"a path as a name":             {Name: "../p", Kind: "driver"},
		"an upper case name":           {Name: "P", Kind: "driver"},
		"an empty name":                {Kind: "driver"},
		"an unknown kind":              {Name: "p", Kind: "secret"},
		"an unknown language":          {Name: "p", Kind: "driver", Lang: "cobol"},
		"a sandbox for a device":       {Name: "p", Kind: "device", Isolated: true},
		"a sandbox in Python":          {Name: "p", Kind: "driver", Lang: "python", Isolated: true},
		"a device in Python":           {Name: "p", Kind: "device", Lang: "python"},
		"a module in Python":           {Name: "p", Kind: "driver", Lang: "python", Module: "example.org/p"},
		"a module with a space":        {Name: "p", Kind: "driver", Module: "a b"},
		"a module that is a path":      {Name: "p", Kind: "driver", Module: "/a/b"},
		"a folder that is no checkout": {Name: "p", Kind: "driver", Replace: full},
	} {
		o.Dir = t.TempDir()
		if _, _, err := scaffold.Write(o); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
	if _, _, err := scaffold.Write(scaffold.Options{Name: "p", Kind: "driver", Dir: full}); !errdefs.IsAlreadyExists(err) {
		t.Errorf("a folder that is full: %v", err)
	}
}
