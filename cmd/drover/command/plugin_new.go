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

// released matches the version of a release.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func pluginNew() spec {
	return spec{
		usage: "plugin new [options] <name>", synopsis: "Writes the skeleton of a plugin that builds, runs and passes the checks of its contract", min: 1, max: 1, offline: true,
		help: "In Go it is a module with the plugin, a test that checks it against every rule of its contract, a Makefile, a\n" +
			"README, an agent configuration and an example job. With -lang python it is a driver with\n" +
			"a Makefile, a README, an example job and the contract's .proto files. With -isolation the tasks of the driver have\n" +
			"a root file system, a user, capabilities and namespaces of their own, as those of exec have. Replace the example's\n" +
			"behaviour with your own.",
		setup: func(fs *flag.FlagSet) run {
			var o scaffold.Options
			fs.StringVar(&o.Kind, "kind", "driver", "Kind of the plugin: "+strings.Join(scaffold.Kinds, ", ")+".")
			fs.StringVar(&o.Lang, "lang", "go", "Language of the plugin: "+strings.Join(scaffold.Langs, ", ")+". Only drivers can be in python.")
			fs.BoolVar(&o.Isolated, "isolation", false, "Run the tasks of the driver in sandboxes of sdk/isolation. Linux only.")
			fs.StringVar(&o.Dir, "dir", ".", "Directory in which the plugin's directory is created.")
			fs.StringVar(&o.Module, "module", "", "Module path, such as example.org/you/name; the name of the plugin by default.")
			fs.StringVar(&o.Replace, "replace", "", "Path of a Drover checkout to build with, instead of a release.")
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
				case o.Lang == "python":
					s.printf("  make check   builds the plugin and checks it against every rule of its contract\n  make run     starts an agent with the plugin")
					return nil
				case o.Replace != "":
				case o.Release != "":
					s.printf("  go mod tidy")
				default:
					s.printf("  go get github.com/drover-project/drover/sdk@latest && go mod tidy")
				}
				s.printf("  make test    checks the plugin against every rule of its contract\n  make run     starts an agent with the plugin")
				return nil
			}
		},
	}
}
