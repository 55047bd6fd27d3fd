// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"regexp"
	"strings"

	"github.com/drover-project/drover/cmd/drover/scaffold"
)

// released is what the version of a release looks like.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func pluginNew() spec {
	return spec{
		usage: "plugin new [options] <name>", synopsis: "Writes a new plugin: a Go module that builds, passes its contract's rules and runs", min: 1, max: 1, offline: true,
		help: "The module has the plugin, a test that puts it through every rule of its contract, a Makefile, a README,\n" +
			"an example job and the configuration of an agent. Replace what it does by what yours is to do.",
		setup: func(fs *flag.FlagSet) run {
			var o scaffold.Options
			fs.StringVar(&o.Kind, "kind", "driver", "What the plugin is: "+strings.Join(scaffold.Kinds, ", ")+".")
			fs.StringVar(&o.Dir, "dir", ".", "Folder in which the module's folder is made.")
			fs.StringVar(&o.Module, "module", "", "Path of the module, as example.org/you/name; by default the name.")
			fs.StringVar(&o.Replace, "replace", "", "Checkout of Drover to build with instead of a release.")
			return func(_ context.Context, s *session, args []string) error {
				o.Name = args[0]
				if released.MatchString(s.Version) {
					o.Release = s.Version
				}
				dir, files, err := scaffold.Write(o)
				if err != nil {
					return err
				}
				for _, f := range files {
					s.printf("wrote %s/%s", dir, f)
				}
				s.printf("\nNext:\n  cd %s", dir)
				switch {
				case o.Replace != "":
				case o.Release != "":
					s.printf("  go mod tidy")
				default:
					s.printf("  go get github.com/drover-project/drover@latest && go mod tidy")
				}
				s.printf("  make test    puts it through every rule of its contract\n  make run     starts an agent that has it")
				return nil
			}
		},
	}
}
