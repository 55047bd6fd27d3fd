// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/plugincheck"
)

// exitChecksFailed is the exit code of plugin check when a check failed.
const exitChecksFailed = 2

func pluginCheck() spec {
	return spec{
		usage: "plugin check [options] <executable>", synopsis: "Checks a built plugin against the rules of its contracts", min: 1, max: 1, offline: true, takes: takesFiles, output: true,
		help: "Launches the plugin (built for Drover or for Nomad) as an agent does, and checks its handshake,\n" +
			"its schemas and every rule of the contracts that it serves, each in a fresh process. Drivers start real\n" +
			"tasks on this machine: run it where the plugin's daemon or hardware is.\n\n" +
			"The file of -task-config holds the contents of a task's config block, with ${script} in place of a /bin/sh script:\n" +
			"  command = \"/bin/sh\"\n  args    = [\"-c\", \"${script}\"]\n" +
			"Without ${script} the config must be of a task that runs until it is stopped; rules that need a script are skipped. Without\n" +
			"a file the config is derived from the plugin's schema if possible.\n\n" +
			"Exit codes: 0 if no check failed (some may be skipped), 1 if the plugin could not be checked, 2 if a check failed,\n130 if the command was interrupted; the rule in progress then counts as skipped.",
		setup: func(fs *flag.FlagSet) run {
			var opts plugincheck.Options
			config := fs.String("config", "", "File with the contents of the config block in the agent's plugin block.")
			task := fs.String("task-config", "", "File with the contents of a task's config block; ${script} stands for a shell script.")
			fs.StringVar(&opts.Name, "name", "", "Checks only this driver, device plugin or collector of the plugin.")
			fs.DurationVar(&opts.Timeout, "timeout", 30*time.Second, "Time limit of each check.")
			skip := lists(fs, "skip", "Name of a check to skip.")
			env := lists(fs, "env", "Environment variable NAME=VALUE for the plugin.")
			return func(ctx context.Context, s *session, args []string) error {
				opts.Path, opts.Skip, opts.Env, opts.LogCollector = args[0], *skip, *env, s.LogCollector
				if err := pluginConfigs(&opts, *config, *task); err != nil {
					return err
				}
				opts.Topology = sync.OnceValue(func() *model.Topology {
					return fingerprint.Probe(ctx, fingerprint.Options{}).Resources.Processors.Topology
				})
				if !s.json && s.template == "" {
					opts.Watch = s.watchChecks()
				}
				report, err := plugincheck.Run(ctx, opts)
				if err != nil {
					return err
				}
				if err := s.show(report, nil, func() { s.checkSummary(report) }); err != nil {
					return err
				}
				if !report.OK() {
					return &exitCode{code: exitChecksFailed}
				}
				return nil
			}
		},
	}
}

// pluginConfigs reads the files that the flags name.
func pluginConfigs(opts *plugincheck.Options, configFile, taskFile string) error {
	if configFile != "" {
		src, err := os.ReadFile(configFile)
		if err != nil {
			return fmt.Errorf("read the agent config: %w", err)
		}
		if opts.Config, _, err = jobspec.ParseConfigBlock(src, configFile, nil); err != nil {
			return err
		}
	}
	if taskFile == "" {
		return nil
	}
	src, err := os.ReadFile(taskFile)
	if err != nil {
		return fmt.Errorf("read the task config: %w", err)
	}
	_, used, err := jobspec.ParseConfigBlock(src, taskFile, map[string]string{"script": ""})
	if err != nil {
		return err
	}
	opts.Scripted = slices.Contains(used, "script")
	opts.Task = func(script string) (map[string]any, error) {
		config, _, err := jobspec.ParseConfigBlock(src, taskFile, map[string]string{"script": script})
		return config, err
	}
	return nil
}

// watchChecks returns a function that prints each result as it arrives.
func (s *session) watchChecks() func(string, plugincheck.Result) {
	last := ""
	return func(part string, r plugincheck.Result) {
		if part != last {
			if last != "" {
				s.printf("")
			}
			s.title("%s", strings.ToUpper(part[:1])+part[1:])
			last = part
		}
		word := map[plugincheck.Outcome]string{
			plugincheck.Passed: s.paint("32", "pass"), plugincheck.Failed: s.paint("31", "FAIL"), plugincheck.Skipped: s.paint("33", "skip"),
		}[r.Outcome]
		s.printf("  %s  %-16s %s", word, r.Name, r.Rule)
		for _, p := range r.Problems {
			s.printf("%s", indent(p))
		}
		if r.Outcome == plugincheck.Skipped {
			s.printf("%s", indent(r.Reason))
		}
	}
}

// indent aligns text below the name of a check.
func indent(text string) string {
	const margin = "                         "
	return margin + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+margin)
}

func (s *session) checkSummary(r *plugincheck.Report) {
	s.printf("")
	start := "N/A"
	if r.Start > 0 {
		start = r.Start.Round(time.Millisecond).String()
	}
	s.pairs("Plugin", r.Path, "Name", r.Name, "Version", r.Version, "Built for", r.BuiltFor, "Serves", strings.Join(r.Serves, ", "), "Start", start)
	s.printf("\n%s", s.paint("1", fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)))
}
