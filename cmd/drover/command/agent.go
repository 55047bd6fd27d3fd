// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/config"
)

func agentInfo() spec {
	return spec{
		usage: "agent-info [options]", synopsis: "Shows statistics of the agent for operators and bug reports", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				self, err := s.client.AgentSelf(ctx)
				return s.show(self, err, func() {
					for _, group := range slices.Sorted(maps.Keys(self.Stats)) {
						s.title("%s", group)
						for _, k := range slices.Sorted(maps.Keys(self.Stats[group])) {
							s.printf("  %s = %s", k, self.Stats[group][k])
						}
					}
				})
			}
		},
	}
}

// copyLog prints a stream of log lines until it ends or the user ends it.
func (s *session) copyLog(ctx context.Context, body io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err = io.Copy(s.Out, body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the connection to the agent's log was lost: %w", err)
	}
	return nil
}

// agentFlags select the agent whose log is shown.
type agentFlags struct{ node, server string }

func (a *agentFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&a.node, "node-id", "", "The agent of this node.")
	fs.StringVar(&a.server, "server-id", "", "The server with this id or name, or leader.")
}

func (a *agentFlags) params(ctx context.Context, s *session) (url.Values, error) {
	p := url.Values{}
	switch {
	case a.node != "" && a.server != "":
		return nil, errors.New("give either -node-id or -server-id")
	case a.node != "":
		id, err := s.wholeNodeID(ctx, a.node)
		if err != nil {
			return nil, err
		}
		p.Set("node_id", id)
	case a.server != "":
		p.Set("server_id", a.server)
	}
	return p, nil
}

func monitorAgent() spec {
	return spec{
		usage: "monitor [options]", synopsis: "Streams the log of an agent",
		setup: func(fs *flag.FlagSet) run {
			of := &agentFlags{}
			of.declare(fs)
			level := fs.String("log-level", "INFO", "TRACE, DEBUG, INFO, WARN or ERROR.")
			asJSON := fs.Bool("json", false, "Prints log lines as JSON.")
			location := fs.Bool("log-include-location", false, "Shows the source file and line of each message.")
			return func(ctx context.Context, s *session, _ []string) error {
				p, err := of.params(ctx, s)
				if err != nil {
					return err
				}
				p.Set("log_level", strings.ToUpper(*level))
				p.Set("log_json", strconv.FormatBool(*asJSON))
				p.Set("log_include_location", strconv.FormatBool(*location))
				body, err := s.client.Monitor(ctx, p)
				return s.copyLog(ctx, body, err)
			}
		},
	}
}

func monitorExport() spec {
	return spec{
		usage: "monitor export [options]", synopsis: "Prints an agent's past log, from its log file or the systemd journal",
		setup: func(fs *flag.FlagSet) run {
			of := &agentFlags{}
			of.declare(fs)
			onDisk := fs.Bool("on-disk", false, "Reads the agent's log file.")
			service := fs.String("service-name", "", "Reads the journal of this systemd unit.")
			since := fs.String("logs-since", "", "With -service-name: how far back, such as 72h.")
			follow := fs.Bool("follow", false, "With -service-name: keeps printing new lines until interrupted.")
			return func(ctx context.Context, s *session, _ []string) error {
				if *onDisk == (*service != "") {
					return errors.New("give either -on-disk or -service-name")
				}
				p, err := of.params(ctx, s)
				if err != nil {
					return err
				}
				p.Set("on_disk", strconv.FormatBool(*onDisk))
				p.Set("follow", strconv.FormatBool(*follow))
				for name, v := range map[string]string{"service_name": *service, "logs_since": *since} {
					if v != "" {
						p.Set(name, v)
					}
				}
				body, err := s.client.ExportLogs(ctx, p)
				return s.copyLog(ctx, body, err)
			}
		},
	}
}

func configValidate() spec {
	return spec{
		usage: "config validate <config_path> [<config_path>...]", synopsis: "Checks an agent's configuration files, in the order in which the agent would read them", min: 1, max: -1, offline: true, takes: takesFiles,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, args []string) error {
				cfg := config.Defaults()
				if err := cfg.Load(args...); err != nil {
					return err
				}
				if err := cfg.Finish(); err != nil {
					return fmt.Errorf("configuration is invalid: %w", err)
				}
				for _, line := range cfg.Warnings {
					fmt.Fprintln(s.Err, s.paint("33", "Warning: "+line))
				}
				for _, door := range cfg.OpenDoors() {
					fmt.Fprintln(s.Err, s.paint("33", "Warning: "+door.String()))
				}
				s.printf("Configuration is valid!")
				return nil
			}
		},
	}
}
