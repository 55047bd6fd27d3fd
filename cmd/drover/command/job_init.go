// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/sdk/errdefs"
)

// examples are job files that run on a dev agent of any Linux machine.
//
//go:embed example
var examples embed.FS

// builtin returns the text of an example, or "" if there is no such example.
func builtin(name string) string {
	b, err := examples.ReadFile("example/" + name + ".nomad.hcl")
	if err != nil {
		return "" // the only possible error is that it does not exist
	}
	return string(b)
}

func builtinNames() []string {
	entries, err := examples.ReadDir("example")
	if err != nil {
		return nil // embedded files can always be read
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".nomad.hcl"))
	}
	return out
}

// templatesPath is the prefix of the variables in which a cluster keeps its own job
// templates.
const templatesPath = "nomad/job-templates"

func jobInit() spec {
	return spec{
		usage: "job init [options] [<filename>]", synopsis: "Writes an example job file with comments", max: 1, takes: takesFiles,
		help: "The file is example.nomad.hcl by default. -template takes the name of a built-in\nexample, or of a template that is stored in the cluster as the item `template` of the\nvariable nomad/job-templates/NAME.",
		setup: func(fs *flag.FlagSet) run {
			short := fs.Bool("short", false, "Writes a minimal job without comments.")
			name := fs.String("template", "", "Name of the example or template.")
			list := fs.Bool("list-templates", false, "Lists the names that -template accepts.")
			refuse(fs, true, "there is no service mesh", "connect")
			return func(ctx context.Context, s *session, args []string) error {
				if *short && *name != "" {
					return errors.New("give either -short or -template")
				}
				if *list {
					return s.listTemplates(ctx)
				}
				file := "example.nomad.hcl"
				if len(args) == 1 {
					file = args[0]
				}
				text := builtin(map[bool]string{false: "full", true: "short"}[*short])
				if *name != "" {
					var err error
					if text, err = s.jobTemplate(ctx, *name); err != nil {
						return err
					}
				}
				if err := writeNew(file, text); err != nil {
					return err
				}
				s.printf("Example job file written to %s", file)
				return nil
			}
		},
	}
}

func (s *session) jobTemplate(ctx context.Context, name string) (string, error) {
	if text := builtin(name); text != "" {
		return text, nil
	}
	v, err := s.client.Variable(ctx, templatesPath+"/"+name)
	switch {
	case errdefs.IsNotFound(err):
		return "", fmt.Errorf("no template is called %q; list the templates with: drover job init -list-templates", name)
	case err != nil:
		return "", err
	case v.Items["template"] == "":
		return "", fmt.Errorf("the variable %s has no item \"template\"", v.Path)
	}
	return v.Items["template"], nil
}

func (s *session) listTemplates(ctx context.Context) error {
	for _, name := range builtinNames() {
		s.printf("%s", name)
	}
	list, _, err := s.client.Variables(ctx, &client.Query{Prefix: templatesPath + "/"})
	if errdefs.IsUnavailable(err) {
		fmt.Fprintln(s.Err, "Cannot list the cluster's templates: "+client.Text(err))
		return nil
	}
	for _, v := range list {
		s.printf("%s", strings.TrimPrefix(v.Path, templatesPath+"/"))
	}
	return err
}
