// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// varOutput holds the flags that select how a variable is printed.
type varOutput struct {
	form, template string
	forms          []string
}

func varOutputFlags(fs *flag.FlagSet, otherwise string, forms ...string) *varOutput {
	o := &varOutput{forms: forms}
	fs.StringVar(&o.form, "out", otherwise, "Format of the output: "+strings.Join(forms, ", ")+".")
	fs.StringVar(&o.template, "template", "", "With -out go-template: the template.")
	return o
}

// print writes v in the selected format; table prints it for people.
func (o *varOutput) print(s *session, v any, hcl func() string, table func()) error {
	switch o.form {
	case "none":
		return nil
	case "table", "terse":
		table()
		return nil
	case "json":
		return s.printJSON(v)
	case "hcl":
		s.printf("%s", hcl())
		return nil
	case "go-template":
		t, err := template.New("").Parse(o.template)
		if err != nil {
			return fmt.Errorf("the template is not valid: %w", err)
		}
		if o.template == "" {
			return errors.New("pass the template with -template")
		}
		if err := t.Execute(s.Out, v); err != nil {
			return fmt.Errorf("cannot execute the template: %w", err)
		}
		s.printf("")
		return nil
	}
	return fmt.Errorf("-out %q: use one of %s", o.form, strings.Join(o.forms, ", "))
}

// variableHCL formats a variable as a file that "var put" accepts.
func variableHCL(v *client.Variable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace    = %s\npath         = %s\ncreate_index = %d\nmodify_index = %d\n\nitems = {\n", jobspec.Quote(v.Namespace), jobspec.Quote(v.Path), v.CreateIndex, v.ModifyIndex)
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		fmt.Fprintf(&b, "  %s = %s\n", jobspec.Quote(k), jobspec.Quote(v.Items[k]))
	}
	return b.String() + "}"
}

func (s *session) describeVariable(v *client.Variable) {
	s.pairs("Namespace", v.Namespace, "Path", v.Path, "Create Time", date(v.CreateTime), "Modify Time", date(v.ModifyTime), "Check Index", text(v.ModifyIndex))
	if v.Lock != nil {
		s.pairs("Lock ID", v.Lock.ID, "Lock TTL", v.Lock.TTL, "Lock Delay", v.Lock.LockDelay)
	}
	s.title("\nItems")
	s.mapPairs(v.Items)
}

func varGet() spec {
	return spec{
		usage: "var get [options] <path>", synopsis: "Prints a variable", min: 1, max: 1, takes: "vars",
		setup: func(fs *flag.FlagSet) run {
			out := varOutputFlags(fs, "", "table", "json", "hcl", "go-template", "none")
			item := fs.String("item", "", "Prints only the raw value of this item.")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if *item != "" && (out.form != "" || out.template != "") {
					return errors.New("-item prints a raw value; remove -out and -template")
				}
				v, err := s.client.Variable(ctx, args[0])
				if errdefs.IsNotFound(err) {
					return fmt.Errorf("no variable %q in namespace %q; list them with: drover var list", args[0], s.client.Namespace())
				}
				if err != nil {
					return err
				}
				if *item != "" {
					value, ok := v.Items[*item]
					if !ok {
						return fmt.Errorf("variable %q has no item %q", v.Path, *item)
					}
					s.printf("%s", value)
					return nil
				}
				s.maybeUI(*show, "variables/var/"+url.PathEscape(v.Path)+"@"+v.Namespace)
				return s.printVariable(out, v)
			}
		},
	}
}

// printVariable prints a variable: as a table on a terminal, otherwise as JSON.
func (s *session) printVariable(out *varOutput, v *client.Variable) error {
	if out.form == "" {
		out.form = map[bool]string{true: "table", false: "json"}[s.Terminal]
	}
	return out.print(s, v, func() string { return variableHCL(v) }, func() { s.describeVariable(v) })
}

func varList() spec {
	return spec{
		usage: "var list [options] [<prefix>]", synopsis: "Lists variables", max: 1, takes: "vars",
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			out := varOutputFlags(fs, "table", "table", "terse", "json", "go-template")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 1 {
					q.Prefix = args[0]
				}
				list, meta, err := s.client.Variables(ctx, &q.Query)
				if err != nil {
					return err
				}
				s.maybeUI(*show, "variables")
				if out.form == "terse" {
					for _, v := range list {
						s.printf("%s", v.Path)
					}
					return nil
				}
				err = out.print(s, list, nil, func() {
					var rows [][]string
					for _, v := range list {
						rows = append(rows, []string{v.Namespace, v.Path, date(v.ModifyTime)})
					}
					s.tableOr("No variables found", []string{"Namespace", "Path", "Last Updated"}, rows)
				})
				if out.form == "table" {
					q.more(s, meta)
				}
				return err
			}
		},
	}
}

func varPut() spec {
	return spec{
		usage: "var put [options] <path or @file or -> [<@file or ->] [<key>=<value>...]", synopsis: "Creates or changes a variable", min: 1, max: -1, takes: "vars",
		help: "A variable is given as a path and KEY=VALUE items, as a file (@FILE) or on standard input\n(-). A path before the file is used instead of the file's own. Items on the command line are\nadded to the items of the file. A value @FILE stands for\nthe content of that file. An existing variable is changed only with -check-index set to its\nmodify index, or with -force.",
		setup: func(fs *flag.FlagSet) run {
			check := fs.String("check-index", "", "Writes only if the variable's modify index is this; 0 means only if it is new.")
			force := fs.Bool("force", false, "Overwrites the variable, whatever its index.")
			form := fs.String("in", "", "Format of the input: hcl or json. By default it follows from the file's name, or else from the text: json begins with a brace.")
			out := varOutputFlags(fs, "", "table", "json", "hcl", "go-template", "none")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				v, err := s.readVariable(args, *form)
				if err != nil {
					return err
				}
				cas, err := putIndex(*check, *force, v)
				if err != nil {
					return err
				}
				saved, err := s.client.PutVariable(ctx, v, cas)
				if errdefs.IsConflict(err) {
					return fmt.Errorf("variable %q already exists or has changed; read it with `drover var get %s`, then pass its modify index with -check-index, or use -force", v.Path, v.Path)
				}
				if err != nil {
					return err
				}
				s.maybeUI(*show, "variables/var/"+url.PathEscape(v.Path)+"@"+saved.Namespace)
				if out.form == "" && s.Terminal {
					s.printf("Created variable %q with modify index %d", saved.Path, saved.ModifyIndex)
					return nil
				}
				return s.printVariable(out, saved)
			}
		},
	}
}

// putIndex returns the modify index that the stored variable must have for the write
// to succeed, or nil for any.
func putIndex(check string, force bool, v *client.Variable) (*uint64, error) {
	if force && check != "" {
		return nil, errors.New("give either -force or -check-index")
	}
	given, index, err := checkIndex(check)
	switch {
	case err != nil:
		return nil, err
	case force:
		return nil, nil
	case !given:
		index = v.ModifyIndex // index of the file; 0 means that the variable must not exist
	}
	return &index, nil
}

// readVariable reads a variable from a file or standard input, from a path and such a
// specification, or from a path and items KEY=VALUE.
func (s *session) readVariable(args []string, form string) (*client.Variable, error) {
	if form != "" && form != "hcl" && form != "json" {
		return nil, fmt.Errorf("-in %q: use hcl or json", form)
	}
	v, path, items := &client.Variable{}, "", args
	if _, isSpec := specOf(args[0]); !isSpec {
		path, items = args[0], args[1:]
	}
	if len(items) > 0 {
		if name, isSpec := specOf(items[0]); isSpec {
			src, err := readFile(name, s.In)
			if err != nil {
				return nil, err
			}
			if v, err = parseVariable(src, name, form); err != nil {
				return nil, err
			}
			items = items[1:]
		}
	}
	if path != "" && path != v.Path {
		v.Path, v.ModifyIndex = path, 0 // the index in a specification belongs to the path in it
	}
	if err := s.addItems(v, items); err != nil {
		return nil, err
	}
	switch {
	case v.Path == "":
		return nil, errors.New("the variable has no path; write path = \"...\" into the file")
	case len(v.Items) == 0:
		return nil, errors.New("the variable has no items; give KEY=VALUE")
	}
	if v.Namespace != "" {
		s.client = s.client.WithNamespace(v.Namespace)
	}
	return v, nil
}

// specOf returns the file that an argument names as the specification of a variable:
// @FILE, or - for standard input.
func specOf(arg string) (name string, ok bool) {
	if arg == "-" {
		return arg, true
	}
	return strings.CutPrefix(arg, "@")
}

// addItems adds items KEY=VALUE of the command line; a value @FILE is the content of a file.
func (s *session) addItems(v *client.Variable, items []string) error {
	if v.Items == nil {
		v.Items = map[string]string{}
	}
	for _, kv := range items {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is not KEY=VALUE", kv)
		}
		if name, isFile := strings.CutPrefix(value, "@"); isFile {
			b, err := readFile(name, s.In)
			if err != nil {
				return err
			}
			value = string(b)
		}
		v.Items[key] = value
	}
	return nil
}

// parseVariable parses a variable. If neither form nor the name of the file say what it is,
// it is JSON if it begins with a brace, which no HCL does.
func parseVariable(src []byte, name, form string) (*client.Variable, error) {
	if form == "" {
		form = strings.TrimPrefix(filepath.Ext(name), ".")
	}
	if form != "hcl" && form != "json" && bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		form = "json"
	}
	v := &client.Variable{}
	if form == "json" {
		if err := json.Unmarshal(src, v); err != nil {
			return nil, fmt.Errorf("%s is not a variable in JSON: %w", name, model.WrongType(err, src, v, ""))
		}
		return v, nil
	}
	f, err := jobspec.ParseVariable(src, name)
	if err != nil {
		return nil, err
	}
	v.Namespace, v.Path, v.Items, v.ModifyIndex = f.Namespace, f.Path, f.Items, f.ModifyIndex
	return v, nil
}

func varPurge() spec {
	return spec{
		usage: "var purge [options] <path>", synopsis: "Deletes a variable", min: 1, max: 1, takes: "vars",
		setup: func(fs *flag.FlagSet) run {
			check := fs.String("check-index", "", "Deletes only if the variable's modify index is this.")
			return func(ctx context.Context, s *session, args []string) error {
				given, index, err := checkIndex(*check)
				if err != nil {
					return err
				}
				cas := &index
				if !given {
					cas = nil
				}
				known, err := s.isVariable(ctx, args[0])
				if err != nil {
					return err
				}
				err = s.client.DeleteVariable(ctx, args[0], cas)
				if errdefs.IsConflict(err) { // the answer is the variable with its items
					return fmt.Errorf("variable %q has another modify index than %d; read it with: drover var get %s", args[0], index, args[0])
				}
				if err != nil {
					return err
				}
				if !known {
					s.printf("There is no variable %q in namespace %q; nothing was purged. List variables with: drover var list", args[0], s.client.Namespace())
					return nil
				}
				s.printf("Successfully purged variable %q!", args[0])
				return nil
			}
		},
	}
}

// isVariable looks for a variable without reading its items.
func (s *session) isVariable(ctx context.Context, path string) (bool, error) {
	list, _, err := s.client.Variables(ctx, &client.Query{Prefix: path, PerPage: 1}) // the path itself is the first of its prefix
	return len(list) == 1 && list[0].Path == path, err
}

// exampleVariable is what "var init" writes.
const exampleVariable = `# The path of the variable. Jobs may read nomad/jobs, nomad/jobs/JOB,
# nomad/jobs/JOB/GROUP and nomad/jobs/JOB/GROUP/TASK without further policies.
path = "path/to/variable"

# The namespace can be set here or with -namespace.
# namespace = "default"

# Keys and values are text, up to 64 KiB in total.
items = {
  key1 = "value 1"
  key2 = "value 2"
}
`

func varInit() spec {
	return exampleOf("var init", "variable", "spec.nv", exampleVariable, func() (any, error) {
		v, err := parseVariable([]byte(exampleVariable), "spec.nv.hcl", "hcl")
		if err != nil {
			return nil, err
		}
		return map[string]any{"Path": v.Path, "Items": v.Items}, nil
	})
}
