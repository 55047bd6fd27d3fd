// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover is the one binary of Drover: the agent and the command line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/hashicorp/cli"
	"golang.org/x/term"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/cmd/drover/daemon"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(args) == 2 && args[0] == daemon.LogCollectorCommand {
		return status(daemon.CollectLogs(context.WithoutCancel(ctx), args[1]))
	}
	commands := command.All(command.IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Env: environment(), Context: ctx, Version: version,
	})
	commands["agent"] = func() (cli.Command, error) {
		return &daemon.Command{Version: version, Out: os.Stdout, Err: os.Stderr}, nil
	}
	program := &cli.CLI{
		Name: "drover", Version: version, Args: args, Commands: commands,
		Autocomplete: true, HelpFunc: cli.BasicHelpFunc("drover"), HelpWriter: os.Stdout, ErrorWriter: os.Stderr,
	}
	code, err := program.Run()
	if err != nil {
		return status(err)
	}
	return code
}

// status prints an error and returns the exit status for it.
func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func environment() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}
