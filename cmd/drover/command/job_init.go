// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
)

// exampleJob runs on any Linux machine without further software.
const exampleJob = `job "example" {
  type = "service"

  group "app" {
    count = 1

    network {
      port "http" {}
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "${NOMAD_PORT_http}"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
`

func jobInit() spec {
	return spec{
		usage: "job init [options] [<filename>]", synopsis: "Writes an example job file", min: 0, max: 1, offline: true,
		setup: func(flags *flag.FlagSet) run {
			_ = flags.Bool("short", false, "Kept for scripts: the example is short already.")
			return func(_ context.Context, s *session, args []string) error {
				name := "example.nomad.hcl"
				if len(args) == 1 {
					name = args[0]
				}
				f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
				if errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("%s exists already; remove it or name another file", name)
				}
				if err != nil {
					return fmt.Errorf("cannot write the example: %w", err)
				}
				_, err = f.WriteString(exampleJob)
				if err = errors.Join(err, f.Close()); err != nil {
					return fmt.Errorf("cannot write the example: %w", err)
				}
				s.printf("Example job file written to %s", name)
				return nil
			}
		},
	}
}
