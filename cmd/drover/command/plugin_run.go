// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/pluginhost/pluginrun"
)

func pluginRun() spec {
	return spec{
		usage: "plugin run [options] <executable> <job file>", synopsis: "Runs a task with a plugin's driver, without an agent or a cluster", min: 2, max: 2, offline: true, takes: takesFiles,
		help: "Launches the plugin, starts the first task of the job file whose driver the plugin has, prints its events and output,\n" +
			"and ends with the task's exit code. Ctrl-C stops the task with its kill_signal and kill_timeout; nothing of it is left behind.\n" +
			"It is for authors of drivers: references such as ${NOMAD_PORT_http} stay as they are, and nothing is restarted. What only an\n" +
			"agent does (networks, volumes, templates, artifacts, cores and others) is named in warnings. Devices and collectors are run under an agent.\n\n" +
			"Exit codes: the task's own, or 1 if it could not be run.",
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			opts := pluginrun.Options{}
			config := fs.String("config", "", "File with the contents of the config block in the agent's plugin block.")
			fs.StringVar(&opts.Task, "task", "", "Name of the task to run.")
			lines := fs.Bool("json-events", false, "Prints one JSON object per event: Time, Kind, Text.")
			return func(ctx context.Context, s *session, args []string) error {
				draft, _, err := f.load(ctx, args[1], s)
				if err != nil {
					return err
				}
				if opts.Job, err = draft.Canonical(); err != nil {
					return err
				}
				if *config != "" {
					src, err := os.ReadFile(*config)
					if err != nil {
						return fmt.Errorf("read the agent config: %w", err)
					}
					if opts.Config, _, err = jobspec.ParseConfigBlock(src, *config, nil); err != nil {
						return err
					}
				}
				opts.Path, opts.Version, opts.Watch = args[0], s.Version, s.watchRun(*lines)
				result, err := pluginrun.Run(ctx, opts)
				if err != nil {
					return err
				}
				if !result.Successful() {
					return &exitCode{code: max(1, result.ExitCode)}
				}
				return nil
			}
		},
	}
}

// watchRun returns a function that prints an event: output as it is, everything else to
// stderr.
func (s *session) watchRun(lines bool) func(pluginrun.Event) {
	return func(e pluginrun.Event) {
		switch {
		case lines:
			body, err := json.Marshal(e)
			if err == nil {
				s.printf("%s", body)
			}
		case e.Kind == "stdout":
			fmt.Fprintln(s.Out, visible(e.Text))
		case e.Kind == "stderr":
			fmt.Fprintln(s.Err, visible(e.Text))
		default:
			fmt.Fprintf(s.Err, "==> %-11s %s\n", e.Kind, visible(e.Text))
		}
	}
}
