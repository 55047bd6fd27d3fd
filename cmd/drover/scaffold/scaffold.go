// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package scaffold writes the skeleton of a plugin: a Go module, or a driver in Python, that
// builds, runs under an agent and passes the checks of its contract. It owns the templates.
// cmd/drover/command imports it.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/drover-project/drover/sdk/errdefs"
)

//go:embed templates
var templates embed.FS

// Kinds lists the kinds of plugins that can be generated.
var Kinds = []string{"driver", "device", "network", "registry", "stats", "volume"}

// Langs lists the languages in which plugins can be generated. Only drivers can be in
// another one than Go.
var Langs = []string{"go", langPython}

const langPython = "python"

// sdkModule is the module of the SDK.
const sdkModule = "github.com/drover-project/drover/sdk"

// Options says what to generate.
type Options struct {
	// Name is the name of the plugin, of its executable, and of the driver, device or
	// collector in it.
	Name string
	Kind string
	// Lang is one of Langs; empty means Go.
	Lang string
	// Dir is the directory in which the module's directory, called Name, is created.
	Dir string
	// Module is the path of the new module. It defaults to Name.
	Module string
	// Replace is the root of a checkout of Drover to build against instead of a release.
	// The module's requirements are taken from the go.mod and go.sum of its SDK.
	Replace string
	// Isolated makes a driver whose tasks run in sandboxes of sdk/isolation, on Linux.
	Isolated bool
	// Release is the release of the SDK to build against, as "v1.2.3". If empty, the user
	// selects one with go get.
	Release string
}

// data holds the values that templates use.
type data struct {
	Name     string
	Kind     string
	Module   string
	Package  string // a Go package name
	Env      string // prefix of the names of Go variables
	Series   string // prefix of the names of metrics
	Replace  string
	Isolated bool
}

// folders returns the folders of templates from which the plugin is made.
func (d data) folders() []string {
	switch {
	case d.Kind != "driver":
		return []string{"all", d.Kind}
	case d.Isolated:
		return []string{"all", "driver", "driver-isolation"}
	}
	return []string{"all", "driver", "driver-plain"}
}

// names matches the allowed names of a plugin. A name is a file name, the driver in
// a job file, and the label of a configuration block.
var names = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

// Write generates the module and returns its files, relative to its directory.
func Write(o Options) (dir string, files []string, err error) {
	d, err := o.check()
	if err != nil {
		return "", nil, err
	}
	made, err := o.files(d)
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(o.Dir, o.Name)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", nil, errdefs.AlreadyExistsf("%s exists and is not empty; choose another name or -dir", dir)
	}
	for name, body := range made {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", nil, fmt.Errorf("write the plugin: %w", err)
		}
		if err := os.WriteFile(to, body, 0o644); err != nil {
			return "", nil, fmt.Errorf("write the plugin: %w", err)
		}
		files = append(files, name)
	}
	slices.Sort(files)
	return dir, files, nil
}

// files returns the files of the plugin by name.
func (o *Options) files(d data) (map[string][]byte, error) {
	if o.Lang == langPython {
		return pythonFiles(o.Name)
	}
	made, err := render(d)
	if err != nil {
		return nil, err
	}
	return made, o.module(d, made)
}

func (o *Options) checkLang() error {
	switch {
	case o.Lang == "" || o.Lang == "go":
		return nil
	case !slices.Contains(Langs, o.Lang):
		return errdefs.InvalidArgumentf("unknown language %q; the known ones are %s", o.Lang, strings.Join(Langs, ", "))
	case o.Kind != "driver":
		return errdefs.InvalidArgumentf("a plugin of kind %q can be generated in go only, and in %s only drivers; leave out -lang, or write it by the files of drover plugin proto (docs/plugins/other-languages.md)", o.Kind, o.Lang)
	case o.Module != "" || o.Replace != "" || o.Isolated:
		return errdefs.InvalidArgumentf("-module, -replace and -isolation are for plugins in go, not in %s", o.Lang)
	}
	return nil
}

func (o *Options) check() (data, error) {
	if !names.MatchString(o.Name) || len(o.Name) > 60 {
		return data{}, errdefs.InvalidArgumentf("%q is not a valid plugin name; use lower case letters, digits and single - or _, beginning with a letter", o.Name)
	}
	if !slices.Contains(Kinds, o.Kind) {
		return data{}, errdefs.InvalidArgumentf("unknown kind %q; the known kinds are %s", o.Kind, strings.Join(Kinds, ", "))
	}
	if err := o.checkLang(); err != nil {
		return data{}, err
	}
	if o.Isolated && o.Kind != "driver" {
		return data{}, errdefs.InvalidArgumentf("-isolation is for drivers, not for plugins of kind %q", o.Kind)
	}
	if o.Module == "" {
		o.Module = o.Name
	}
	if strings.ContainsAny(o.Module, " \t\n\"`\\") || path.Clean(o.Module) != o.Module || path.IsAbs(o.Module) {
		return data{}, errdefs.InvalidArgumentf("%q is not a Go module path, such as example.org/you/%s", o.Module, o.Name)
	}
	plain := strings.NewReplacer("-", "", "_", "").Replace(o.Name)
	if token.IsKeyword(plain) || slices.Contains([]string{"main", "driver", "device", "network", "registry", "stats", "volume", "plugin", "internal", "vendor", "testdata"}, plain) {
		plain += "plugin" // the name is a keyword, or an identifier that the generated files use
	}
	return data{
		Name: o.Name, Kind: o.Kind, Module: o.Module, Package: plain, Replace: o.Replace, Isolated: o.Isolated,
		Env: strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_")), Series: strings.NewReplacer("-", "_").Replace(o.Name),
	}, nil
}

// render returns the files of the kind and those that all kinds share. All Go files
// except main.go go into the directory of the package.
func render(d data) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, folder := range d.folders() {
		base := path.Join("templates", folder)
		entries, err := fs.ReadDir(templates, base)
		if err != nil {
			return nil, errdefs.Internalf("read the templates: %w", err)
		}
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), ".tmpl")
			t, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").ParseFS(templates, path.Join(base, e.Name()))
			if err != nil {
				return nil, errdefs.Internalf("read the template of %s: %w", name, err)
			}
			var b bytes.Buffer
			if err := t.ExecuteTemplate(&b, e.Name(), d); err != nil {
				return nil, errdefs.Internalf("fill in the template of %s: %w", name, err)
			}
			body := b.Bytes()
			switch {
			case name == "gitignore":
				name = ".gitignore"
			case strings.HasSuffix(name, ".go"):
				if d.Isolated {
					body = append([]byte("//go:build linux\n\n"), body...)
				}
				if body, err = format.Source(body); err != nil {
					return nil, errdefs.Internalf("format %s: %w", name, err)
				}
				if name != "main.go" {
					name = d.Package + "/" + name
				}
			}
			out[name] = body
		}
	}
	return out, nil
}

// required matches the lines of require blocks in a go.mod that is formatted by go mod.
var required = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`)

var goVersion = regexp.MustCompile(`(?m)^go [0-9.]+$`)

// module adds go.mod and, with Replace, go.sum.
func (o *Options) module(d data, files map[string][]byte) error {
	var b strings.Builder
	fmt.Fprintf(&b, "module %s\n\n", d.Module)
	if o.Replace == "" {
		fmt.Fprintf(&b, "%s\n", "go 1.26.0")
		if o.Release != "" {
			fmt.Fprintf(&b, "\nrequire %s %s\n", sdkModule, o.Release)
		}
		files["go.mod"] = []byte(b.String())
		return nil
	}
	root, err := filepath.Abs(o.Replace)
	if err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	root = filepath.Join(root, "sdk")
	theirs, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !bytes.Contains(theirs, []byte("module "+sdkModule+"\n")) {
		return errors.Join(errdefs.InvalidArgumentf("-replace: %s is not a checkout of Drover: it has no module %s", o.Replace, sdkModule), err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	fmt.Fprintf(&b, "%s\n\nrequire %s v0.0.0\n\nrequire (\n", goVersion.Find(theirs), sdkModule)
	var lines []string
	for _, r := range required.FindAllSubmatch(theirs, -1) {
		lines = append(lines, fmt.Sprintf("\t%s %s // indirect\n", r[1], r[2]))
	}
	slices.Sort(lines)
	fmt.Fprintf(&b, "%s)\n\nreplace %s => %s\n", strings.Join(lines, ""), sdkModule, root)
	files["go.mod"], files["go.sum"] = []byte(b.String()), sums
	return nil
}
